"""The example pairs: all run, print what they report, and differ by a handful of lines."""

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PAIRS = {
    "pyg": (0.02, 0.02),
    "links": (0.02, 0.02),
    "items": (0.002, -0.005),
    "loader": (0.02, 0.02),
}
"""each pair's name, and what TuneUp adds at least, overall and in the tail: on any processor"""


def printed(name: str, **environment: str) -> tuple[float, float]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", EXAMPLES / name],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    return numbers(done.stdout)


def numbers(text: str) -> tuple[float, float]:
    found = re.search(r"test [\w@ ]+ ([\d.]+), tail ([\d.]+)", text)
    assert found is not None
    return float(found[1]), float(found[2])


def check_report(name: str, **environment: str) -> tuple[float, float]:
    """The numbers that a script prints, which its first lines must tell."""
    found, reported = printed(name, **environment), numbers((EXAMPLES / name).read_text())
    # Other processors round differently, and training magnifies that.
    assert all(abs(a - b) < 0.02 for a, b in zip(found, reported, strict=True)), (name, found)
    return found


@pytest.mark.parametrize("pair", PAIRS)
def test_both_print_what_they_report_and_tuneup_helps(pair: str) -> None:
    plain, tuned = check_report(f"plain_{pair}.py"), check_report(f"plain_{pair}_tuneup.py")
    gains = (after - before for before, after in zip(plain, tuned, strict=True))
    assert all(gain > least for gain, least in zip(gains, PAIRS[pair], strict=True))


@pytest.mark.parametrize("pair", PAIRS)
def test_each_tells_the_other_ones_numbers(pair: str) -> None:
    for one, other in (("", "_tuneup"), ("_tuneup", "")):
        told = (EXAMPLES / f"plain_{pair}{one}.py").read_text().splitlines()[3]
        assert told.startswith(f"plain_{pair}{other}.py: ")
        assert numbers(told) == numbers((EXAMPLES / f"plain_{pair}{other}.py").read_text())


@pytest.mark.parametrize("pair", PAIRS)
def test_they_differ_by_a_handful_of_lines(pair: str) -> None:
    code = [
        (EXAMPLES / f"plain_{pair}{end}.py").read_text().split('"""')[2] for end in ("", "_tuneup")
    ]
    added = [d for d in difflib.ndiff(*[c.splitlines() for c in code]) if d.startswith("+ ")]
    assert len([line for line in added if line.strip("+ ")]) <= 10


def test_the_loop_of_fabric() -> None:
    check_report("fabric_tuneup.py", LT_ACCELERATOR="cpu")
