"""The example pair: both run, print what they report, and differ by a handful of lines."""

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def printed(name: str) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", EXAMPLES / name],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return numbers(done.stdout)


def numbers(text: str) -> tuple[float, float]:
    found = re.search(r"test accuracy ([\d.]+), tail ([\d.]+)", text)
    assert found is not None
    return float(found[1]), float(found[2])


def test_both_print_what_they_report_and_tuneup_helps():
    plain, tuned = printed("plain_pyg.py"), printed("plain_pyg_tuneup.py")
    for name, found in (("plain_pyg.py", plain), ("plain_pyg_tuneup.py", tuned)):
        reported = numbers((EXAMPLES / name).read_text())
        # Other processors round differently, and training magnifies that.
        assert all(abs(a - b) < 0.02 for a, b in zip(found, reported, strict=True)), (name, found)
    assert tuned[0] > plain[0] + 0.02
    assert tuned[1] > plain[1] + 0.02


def test_they_differ_by_a_handful_of_lines():
    code = [
        (EXAMPLES / f"plain_pyg{end}.py").read_text().split('"""')[2] for end in ("", "_tuneup")
    ]
    added = [d for d in difflib.ndiff(*[c.splitlines() for c in code]) if d.startswith("+ ")]
    assert len([line for line in added if line.strip("+ ")]) <= 10
