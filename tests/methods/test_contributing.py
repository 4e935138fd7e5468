"""The method that the documentation adds is a real one: it trains and refuses like the others."""

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.methods.toys import SETUPS, node_setup
from tuneup.errors import InputError
from tuneup.methods import METHODS, configured, run

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "own-method.md").read_text()


BLOCK, *_ = re.findall(r"^ *```python\n(.*?)^ *```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]], ids=" ".join)
def test_it_passes_the_projects_own_lint(check):
    place = Path(__file__).parents[2] / "src" / "tuneup" / "methods" / "spared.py"
    command = [sys.executable, "-m", "ruff", *check, "--stdin-filename", str(place), "-"]
    file = f'"""A method."""\n\n{dedent(BLOCK)}'
    done = subprocess.run(command, input=file, text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def spared():
    names = {"__name__": "spared"}
    exec(compile(dedent(BLOCK), "own-method.md", "exec"), names)
    return names["spared"]


@pytest.mark.parametrize("task", SETUPS)
def test_it_trains_on_every_task(spared, task):
    setup = SETUPS[task]()
    base = run(METHODS["base"], setup)
    result = run(spared, setup, settings=configured(spared, {"alpha": 0.25}))
    assert [stage.views[0] for stage in result.curriculum][1].alpha == 0.25
    assert result.states[0].keys() == base.states[0].keys()


def test_it_is_refused_like_the_others(spared):
    from dataclasses import replace

    narrow = replace(spared, architectures=("gcn",), why_not="an example")
    with pytest.raises(InputError, match=r"spared works with gcn, not sage: an example\."):
        run(narrow, node_setup("sage"))
