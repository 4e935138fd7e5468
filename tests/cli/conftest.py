"""The command line in this process, as its user meets it."""

from typing import NamedTuple

import pytest

from tuneup import cli


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


@pytest.fixture
def typed(monkeypatch, capsys):
    """Runs a command of so many words, in a terminal of so many columns."""
    monkeypatch.setattr(cli, "relaunch", lambda: None)  # it would replace this process
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*words, columns=80):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr("sys.argv", ["tuneup", *map(str, words)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        return Done(end.value.code or 0, *capsys.readouterr())

    return run
