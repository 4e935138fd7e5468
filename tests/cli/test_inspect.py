"""`tuneup inspect` finds all problems at once, and says which options solve them."""

from __future__ import annotations

import shlex

import pytest

from tuneup.cli import app
from tuneup.cli.inspect import continued
from tuneup.errors import InputError
from tuneup.tables import TableRequest

NODES = "id;label;f;g;h\n1;a;1,5;NaN;2\n2;b;2,5;1;inf\n3;a;NA;2;3\n4;b;1;3;5\n"
EDGES = "source,target,weight\n1,2,1\n2,3,0.5\n3,9,2\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "60")
    (tmp_path / "my nodes.csv").write_text(NODES)
    (tmp_path / "edges.csv").write_text(EDGES)
    return tmp_path


def inspect(*words):
    app(["inspect", *words], standalone_mode=False)


TABLES = ("--edges", "edges.csv", "--nodes", "my nodes.csv")


def parts(error: InputError) -> tuple[list[str], list[str]]:
    """Problems, and the words of the command after ``tuneup inspect``."""
    problems, _, rest = str(error).partition("\nThis solves ")
    command = rest.partition(":\n")[2]
    assert all(len(line) <= 60 for line in command.splitlines())
    return problems.split("\nError: "), shlex.split(command.replace("\\\n", " "))[2:]


def test_all_problems_and_one_command_that_solves_them(capsys):
    with pytest.raises(InputError) as refused:
        inspect(*TABLES)
    problems, command = parts(refused.value)
    found = ["--delimiter ';'", "'NA' is not a number", "NaN", "infinite", "weights that", "id 9"]
    assert len(problems) == len(found)
    for words, problem in zip(found, problems, strict=True):
        assert words in problem
    assert "This solves all of it:" in str(refused.value)
    inspect(*command)
    out = capsys.readouterr().out
    fit = shlex.split(out.partition("To train on them:\n")[2].replace("\\\n", " "))
    assert fit == ["tuneup", "fit", *command, "--out", "model"]
    assert all(len(line) <= 60 for line in out.splitlines())


def test_the_command_of_the_fit_has_what_the_estimate_was_for(folder, capsys):
    (folder / "my nodes.csv").write_text("id,label\n1,a\n2,b\n3,a\n9,b\n")
    inspect(*TABLES, "--ignore-weights", "--width", "64", "--epochs", "7")
    fit = capsys.readouterr().out.partition("To train on them:\n")[2].replace("\\\n", " ")
    assert shlex.split(fit)[-6:] == ["--width", "64", "--epochs", "7", "--out", "model"]


def test_what_no_option_solves_is_the_last(folder):
    (folder / "my nodes.csv").write_text(NODES.replace("4;b;1;3;5", "3;b;1;3;5"))
    with pytest.raises(InputError) as refused:
        inspect(*TABLES)
    problems, command = parts(refused.value)
    assert "id 3 again" in problems[-1]
    assert "This solves all but the last:" in str(refused.value)
    assert command == [*TABLES, "--delimiter", ";"]


def test_a_single_problem_without_an_option_is_one_line(folder):
    (folder / "my nodes.csv").write_text("id,label\n1,a\n1,b\n")
    with pytest.raises(InputError) as refused:
        inspect(*TABLES)
    assert len(str(refused.value).splitlines()) == 1


def test_options_as_words():
    request = TableRequest(
        ("a.csv", "b c.csv"),
        task="link-prediction",
        missing=("-", "n/a"),
        unknown_ids="add",
        new=0.1,
        by_time=True,
    )
    assert request.words() == shlex.split(
        "--edges a.csv --edges 'b c.csv' --task link-prediction --unknown-ids add "
        "--missing - --missing n/a --new 0.1 --by-time"
    )
    assert request.with_fix(("--missing", "?")).missing == ("-", "n/a", "?")


def test_a_long_command_is_continued():
    words = ["tuneup", "fit", *["--exclude", "a column"] * 9]
    text = continued(words, 40)
    assert all(len(line) <= 40 for line in text.splitlines())
    assert shlex.split(text.replace("\\\n", " ")) == words
