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
    assert code == 2, (case.name, error)
    assert out == "", case.name
    assert "Traceback" not in error
    problems, _, command = error.partition("\nThis solves ")
    first, *others = problems.splitlines()
    assert first.startswith("Error: ")
    assert all(line.startswith("Error: ") for line in others), "a line each"
    assert not others or command
    for words in case.says:
        assert words in first, case.name


ALL = [case for cases in CASES.values() for case in cases]


@pytest.mark.parametrize("group", CASES)
def test_malformed(group, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cli, "relaunch", lambda: None)  # it would replace the test's process
    messages: dict[str, str] = {}
    for number, case in enumerate(CASES[group]):
        folder = tmp_path / str(number)
        folder.mkdir()
        write(folder, case.files)
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["tuneup", "inspect", *case.arguments.split()])
        before = listing(folder)
        with pytest.raises(SystemExit) as stop:
            cli.main()
        printed = capsys.readouterr()
        check(stop.value.code, printed.out, printed.err, case)
        assert listing(folder) == before, case.name
        twin = messages.setdefault(printed.err, case.name)
        assert twin == case.name, f"the same message as {twin}"


def test_malformed_in_a_process_of_its_own(tmp_path):
    """Polars' threads write of damaged Parquet files on their own."""
    (case,) = (case for case in ALL if case.name == "truncated Parquet")
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
