"""Methods of other packages: by entry point, and by module and name."""

import pytest

from tests.methods.toys import node_setup
from tuneup.errors import InputError
from tuneup.methods import METHODS, method_named, method_names, run, title_of

MODULE = """
from dataclasses import dataclass
from tuneup.curriculum import Stage
from tuneup.methods import Method, Recipe

@dataclass(frozen=True)
class Plain:
    def __call__(self, setup):
        return Recipe(setup.base_model(), (Stage(schedule=setup.pretrain),))

METHOD = Method("plain", "as Base", "", Plain())
OTHER = 3
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """A package with a method, as if installed."""
    (tmp_path / "plain_methods.py").write_text(MODULE)
    info = tmp_path / "plain_methods-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plain-methods\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tuneup.methods]\nplain = plain_methods:METHOD\nwrong = plain_methods:OTHER\n"
    )
    monkeypatch.syspath_prepend(tmp_path)


def test_a_method_of_another_package_is_run_like_the_others(plugin):
    assert method_names() == (*METHODS, "plain", "wrong")
    method = method_named("plain")
    assert method_named("plain_methods:METHOD") is method
    assert title_of("plain") == "plain"
    setup = node_setup()
    assert run(method, setup).record.curves() == run(METHODS["base"], setup).record.curves()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("other", "no method 'other'; choose from base, .*plain, wrong, or package.module:NAME"),
        ("wrong", "'wrong' must be a tuneup.methods.Method; got 3"),
        ("plain_methods:OTHER", "must be a tuneup.methods.Method"),
        ("plain_methods:MISSING", "cannot be imported: .*MISSING"),
        ("missing_module:METHOD", "cannot be imported: .*missing_module"),
        (":METHOD", "cannot be imported"),
    ],
)
def test_what_is_no_method_is_refused(plugin, name, message):
    with pytest.raises(InputError, match=message):
        method_named(name)
