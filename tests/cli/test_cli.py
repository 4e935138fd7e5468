"""The command line as a user meets it: in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
import typer

from tuneup.cli import app
from tuneup.errors import InputError

TUNEUP = Path(sys.executable).with_name("tuneup")
ENVIRONMENT = {**os.environ, "COLUMNS": "80", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


def tuneup(*arguments: str, cwd: Path, columns: int = 80) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TUNEUP, *arguments],
        cwd=cwd,
        env={**ENVIRONMENT, "COLUMNS": str(columns)},
        capture_output=True,
        text=True,
        timeout=280,
    )


@pytest.mark.parametrize(("columns", "arguments"), [(80, ("--help",)), (60, ("demo", "-h"))])
def test_help_fits_its_terminal(columns, arguments, tmp_path):
    done = tuneup(*arguments, cwd=tmp_path, columns=columns)
    assert done.returncode == 0
    assert "Usage: tuneup" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= columns
    assert "…" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_help_breaks_no_name_and_fills_its_lines(tmp_path):
    text = tuneup("demo", "--help", cwd=tmp_path, columns=80).stdout
    for name in ("node-classification", "link-prediction", "recommendation", "sage-sum"):
        assert name in text
    (paragraph,) = (part for part in re.split(r"\n *\n", text) if "a few hubs" in part)
    lines = [line.strip() for line in paragraph.splitlines()]
    for line, following in pairwise(lines):
        assert len(line) + len(following.split()[0]) + 1 > 80 - 2  # no word more fits


def test_help_in_a_narrow_terminal_has_whole_names(tmp_path):
    text = tuneup("fit", "--help", cwd=tmp_path, columns=60).stdout
    assert max(map(len, text.splitlines())) <= 60
    for param in typer.main.get_command(app).commands["fit"].params:
        assert f"  {param.opts[0]} " in text
    for word in ("Columns:", "Training:", "--architecture NAME|auto ", "/ --no-interpolate"):
        assert word in text


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_help_and_version_import_nothing_heavy(tmp_path):
    """They answer in the time that Python needs to start, and the command is not restarted."""
    code = """
        import os, sys
        from tuneup import cli

        cli.relaunch = lambda: sys.exit("restarted")
        for word in ("--help", "--version"):
            sys.argv = ["tuneup", word]
            try:
                cli.main()
            except SystemExit as end:
                assert end.code == 0, end.code
        heavy = {"torch", "polars", "numpy", "matplotlib", "sklearn"} & set(sys.modules)
        assert not heavy, heavy
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, cwd=tmp_path)


def test_without_a_command_the_help_is_shown(tmp_path):
    done = tuneup(cwd=tmp_path)
    assert done.returncode == 2
    assert "Usage: tuneup" in done.stdout
    assert done.stderr == ""


def test_version(tmp_path):
    module = [sys.executable, "-m", "tuneup", "--version"]
    done = subprocess.run(module, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.startswith("tuneup 0.")


def test_wrong_arguments_give_one_clear_line(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    for words, expected in {
        "demo --alpha 1.5": ["--alpha", "1.5 is not a number from 0 to 1"],
        "demo --alpha half": ["--alpha", "half is not a number"],
        "demo --alpha nan": ["--alpha", "nan is not a number"],
        "demo --architecture transformer": ["--architecture", "sage-max"],
        "demo --seed -1": ["--seed", "-1 is not a whole number from 0"],
        "demo --seed 1.5": ["--seed", "1.5 is not a whole number"],
        "demo --seed 18446744073709551616": ["--seed", "2147483647"],
        "demo --task clustering": ["--task", "link-prediction"],
        "demo --bananas": ["--bananas"],
        "dmo": ["dmo"],
    }.items():
        done = typed(*words.split())
        (line,) = done.err.strip().splitlines()
        assert done.code == 2
        assert all(word in line for word in expected), line
    assert list(tmp_path.iterdir()) == []


LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from tuneup import cli
from tuneup.workflow import fit as fitting

def fit_in_little(*given, fit=fitting.fit, **named):  # what was loaded takes address space too
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 28), taken + (1 << 28)))
    return fit(*given, **named)

fitting.fit = fit_in_little
cli.relaunch = lambda: None  # it would replace this process
sys.argv[0] = "tuneup"
cli.main()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
def test_running_out_of_memory_is_one_line_with_what_to_try(tmp_path):
    (tmp_path / "edges.csv").write_text("a,b\n" + "".join(f"{k},{k + 1}\n" for k in range(60)))
    words = ("fit", "--edges", "edges.csv", "--out", "m", "--width", "5000")  # 200 MB a layer
    done = subprocess.run(
        [sys.executable, "-c", LITTLE_MEMORY, *words],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("Error: out of memory; try a smaller --width or fewer features")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv"]


def test_closed_or_full_output_is_no_traceback(tmp_path):
    for end, code in ((">&-", 0), ("> /dev/full", 1), ("| true", 0)):
        done = subprocess.run(
            f"'{TUNEUP}' --version {end}", shell=True, cwd=tmp_path, capture_output=True, text=True
        )
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) <= 1
        assert done.returncode == code


def test_several_processes_are_refused_before_any_work(tmp_path, monkeypatch):
    """As torchrun starts them; each would train the same model."""
    monkeypatch.chdir(tmp_path)
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    for words in ("demo", "bench run --dataset cora"):
        with pytest.raises(InputError, match=r"process 0 of 2 .* without torchrun"):
            app(words.split(), standalone_mode=False)
    with pytest.raises(InputError, match=r"MASTER_ADDR: not set, though WORLD_SIZE is 2"):
        app(["fit", "--edges", "none.csv", "--out", "m"], standalone_mode=False)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_place_is_refused_before_any_work(tmp_path, monkeypatch, typed):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    done = typed("demo", "--out", "taken/demo")
    assert done.code == 1
    assert done.err.startswith("Error: cannot write taken/demo")
    assert "Base" not in done.out
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    if Path("/proc/self").exists():
        done = typed("demo", "--out", "/proc/tuneup-demo")
        assert done.code == 1
        assert done.err == (
            "Error: cannot write /proc/tuneup-demo: no folder can be made there; "
            "choose another place with --out\n"
        )


def test_interrupted_demo_leaves_nothing(tmp_path):
    process = subprocess.Popen(
        [TUNEUP, "demo", "--out", "out"],
        cwd=tmp_path,
        env={**ENVIRONMENT, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Who runs the tests in a shell's background runs them with this signal ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert process.stdout.readline().startswith(
        "demo: 10,000 nodes"
    )  # training begins after this line
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.strip() == "Interrupted: nothing half-written is left."
    assert list(tmp_path.iterdir()) == []


FILES = {
    "degrees.png",
    "log.jsonl",
    "metrics.json",
    "report.html",
    "scores-base.parquet",
    "scores-stage-2.parquet",
    "scores-tuneup.parquet",
}
"""Whatever the task."""


def test_demo(tmp_path):
    """The whole demo: table, figure and metrics, and a gain where TuneUp promises one."""
    done = tuneup("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    words = ("known nodes", "0-5 links", "6+ links", "Stage 2: best validation", "Result: ")
    for word in (*words, "new nodes, 90 % of links removed"):
        assert word in done.stdout
    assert "epoch 50/200" not in done.stdout, "progress is for terminals"
    assert "\x1b" not in done.stdout, "no cursor tricks when not on a terminal"
    out = tmp_path / "runs" / "demo"
    names = {path.name for path in out.iterdir()}
    assert names >= {*FILES, "pseudo-labels.parquet"}
    assert "floor-features-logistic.parquet" in names
    assert (out / "degrees.png").read_bytes().startswith(b"\x89PNG")
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert (log[0]["stage"], log[0]["epoch"], log[-1]["stage"]) == (1, 1, 2)
    scores = json.loads((out / "metrics.json").read_text())["scores"]
    for setting in ("transductive", "cold-90"):
        gain = scores["tuneup"][setting]["tail"]["mean"] - scores["base"][setting]["tail"]["mean"]
        assert gain > 0.02
    # What was printed, what was summarised and what was saved per node are the same.
    saved = pl.read_parquet(out / "scores-tuneup.parquet").filter(pl.col("setting") == "inductive")
    assert saved["score"].mean() == pytest.approx(scores["tuneup"]["inductive"]["overall"]["mean"])
    assert f"{100 * saved['score'].mean():.1f}" in done.stdout


def test_demo_of_an_edge_task(tmp_path):
    """The same table, picture and files, but for pseudo-labels, which there are none of."""
    done = tuneup("demo", "--task", "link-prediction", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("known ", "0-5 links", "6+ links", "Recall@50", "Result: "):
        assert word in done.stdout
    out = tmp_path / "runs" / "demo-link-prediction"
    names = {path.name for path in out.iterdir()}
    assert names >= FILES
    assert any(name.startswith("floor-") for name in names)
    assert "pseudo-labels.parquet" not in names
    scores = json.loads((out / "metrics.json").read_text())["scores"]
    assert len(scores["base"]) == 5
    tail = [scores[method]["transductive"]["tail"]["mean"] for method in ("base", "tuneup")]
    assert tail[1] > tail[0]
