"""``tuneup report`` as it is typed; what it reads is tested in tests/bench/test_run_folders.py."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.workflow.test_run_folders import record
from tuneup.cli import app
from tuneup.errors import InputError


@pytest.fixture
def records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, lift in (("one", 0.05), ("two", 0.1)):
        record(tmp_path / name, "base", 0, 0.0)
        record(tmp_path / name, "tuneup", 0, lift)
    return tmp_path


def report(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["report", *arguments], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_one_run_and_several(records):
    assert report("one").startswith("wrote report.html (")
    assert "TuneUp helped" in Path("report.html").read_text()
    report("one", "two", "--out", "new/both.html")
    text = Path("new/both.html").read_text()
    assert "2 runs compared" in text
    assert "two minus one" in text


def test_an_existing_page_is_replaced_only_if_asked(records):
    Path("report.html").write_text("mine")
    with pytest.raises(InputError, match=r"report\.html: the file exists; .*--overwrite.*--out"):
        report("one")
    assert Path("report.html").read_text() == "mine"
    report("one", "--out", "other.html")
    report("one", "--overwrite")
    assert Path("report.html").read_text() == Path("other.html").read_text()


def test_a_refusal_writes_nothing(records):
    before = sorted(records.rglob("*"))
    for arguments, words in {
        ("nowhere",): "not the folder of a run",
        ("one", "--out", "page.pdf"): "must end in .html",
        ("one", "nowhere", "--out", "new/page.html"): "not the folder of a run",
    }.items():
        with pytest.raises(InputError, match=words):
            CliRunner().invoke(app, ["report", *arguments], catch_exceptions=False)
    assert sorted(records.rglob("*")) == before
