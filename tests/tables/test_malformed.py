"""Broken tables, each as a real file through the real command: one clear line, nothing written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tables.malformed_cases import CASES, EDGES, LABELS, NODES, Case, Files
from tuneup import cli


def write(folder: Path, files: Files) -> None:
    for name, content in {"edges.csv": EDGES, "nodes.csv": NODES, **files}.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if callable(content):
            content(path)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            assert isinstance(content, str)
            path.write_bytes(content.encode())


def listing(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in sorted(folder.rglob("*"))
    }


def check(code: int, out: str, error: str, case: Case) -> None:
    assert code == 2, error
    assert out == ""
    assert "Traceback" not in error
    problems, _, command = error.partition("\nThis solves ")
    first, *others = problems.splitlines()
    assert first.startswith("Error: ")
    assert all(line.startswith("Error: ") for line in others), "a line each"
    assert not others or command
    for words in case.says:
        assert words in first


def test_there_are_enough_and_each_is_its_own():
    assert len(CASES) >= 40
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.fixture(scope="module")
def messages() -> dict[str, str]:
    return {}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_malformed(case, tmp_path, monkeypatch, capsys, messages):
    write(tmp_path, case.files)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tuneup", "inspect", *case.arguments.split()])
    monkeypatch.setattr(cli, "relaunch", lambda: None)  # it would replace the test's process
    before = listing(tmp_path)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    told = capsys.readouterr()
    check(stop.value.code, told.out, told.err, case)
    assert listing(tmp_path) == before
    twin = messages.setdefault(told.err, case.name)
    assert twin == case.name, f"the same message as {twin}"


@pytest.mark.parametrize("name", ["truncated Parquet", "ids without a row"])
def test_malformed_in_a_process_of_its_own(name, tmp_path):
    (case,) = (case for case in CASES if case.name == name)
    write(tmp_path, case.files)
    before = listing(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "tuneup", "inspect", *case.arguments.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    check(done.returncode, done.stdout, done.stderr, case)
    assert listing(tmp_path) == before


def test_the_tables_that_the_cases_break_are_good(tmp_path, monkeypatch, capsys):
    write(tmp_path, {})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tuneup", "inspect", *LABELS.split()])
    monkeypatch.setattr(cli, "relaunch", lambda: None)
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code == 0
    assert "nodes" in capsys.readouterr().out
