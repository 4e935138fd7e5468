"""The table of methods: everything that a record says, in a narrow terminal too."""

import pytest
from rich.console import Console

from tuneup.bench.catalogue import lines_of, methods_table
from tuneup.methods import METHODS


def printed(width):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(methods_table(METHODS.values()))
    console.file.close()
    return console.export_text()


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_method_is_there_in_whole_words(width):
    text = printed(width)
    assert max(map(len, text.splitlines())) <= width
    words = text.split()
    for name, method in METHODS.items():
        assert name in words
        for line in lines_of(method):
            for word in line.split():
                assert word in words


def test_limits_and_grids_are_said():
    assert lines_of(METHODS["rawls-gcn"])[1:] == ["with gcn"]
    assert lines_of(METHODS["base"]) == ["conventional training"]
    said = lines_of(METHODS["graphlessnn"])
    assert "for node-classification" in said
    assert "needs node features" in said
    assert "soft: False, True" in said
