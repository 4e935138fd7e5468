"""The method that CONTRIBUTING.md adds is a real one: it trains, and refuses like the others."""

import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.methods.toys import SETUPS, node_setup
from tuneup.errors import InputError
from tuneup.methods import METHODS, configured, run

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()


(BLOCK,) = re.findall(r"^ *```python\n(.*?)^ *```", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]], ids=" ".join)
def test_it_passes_the_projects_own_lint(check):
    place = Path(__file__).parents[2] / "src" / "tuneup" / "methods" / "rising.py"
    command = [sys.executable, "-m", "ruff", *check, "--stdin-filename", str(place), "-"]
    done = subprocess.run(command, input=dedent(BLOCK), text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def rising():
    names = {"__name__": "rising"}
    exec(compile(dedent(BLOCK), "CONTRIBUTING.md", "exec"), names)
    (method,) = names["METHODS"]
    return method


@pytest.mark.parametrize("task", SETUPS)
def test_it_trains_on_every_task(rising, task):
    setup = SETUPS[task]()
    base = run(METHODS["base"], setup)
    result = run(rising, setup, settings=configured(rising, {"most": 0.5}))
    assert len(result.record.stages) == 3
    views = [stage.views[0] for stage in result.curriculum[1:]]
    assert [view.alpha for view in views] == [0.25, 0.5]
    assert result.states[0].keys() == base.states[0].keys()


def test_it_is_refused_like_the_others(rising):
    from dataclasses import replace

    narrow = replace(rising, architectures=("gcn",), why_not="an example")
    with pytest.raises(InputError, match=r"rising works with gcn, not sage: an example\."):
        run(narrow, node_setup("sage"))
