"""The fingerprint tells models apart that have the same shapes and the same ``repr``."""

import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch_geometric.nn import GraphSAGE

from tests.train.toy import NUM_CLASSES, NUM_FEATURES, small_encoder, small_task
from tuneup.curriculum import base
from tuneup.errors import InputError
from tuneup.train import SlowModule, adam
from tuneup.train.state import fingerprint


def mark(model) -> str:
    return fingerprint({"model": model}, small_task(), base(), 0, adam)


def sage(**options) -> GraphSAGE:
    return GraphSAGE(NUM_FEATURES, 8, num_layers=2, out_channels=NUM_CLASSES, **options)


def test_equal_settings_have_one_mark():
    assert mark(sage(dropout=0.5)) == mark(sage(dropout=0.5))
    assert mark(small_encoder(seed=1)) == mark(small_encoder(seed=2))


@pytest.mark.parametrize("options", [{"dropout": 0.0}, {"aggr": "max"}, {"act": "elu"}])
def test_pygs_models_differ_by_what_their_repr_hides(options):
    plain, other = sage(dropout=0.5), sage(**{"dropout": 0.5, **options})
    assert repr(plain) == repr(other)
    assert mark(plain) != mark(other)


@pytest.mark.parametrize("options", [{"dropout": 0.1}, {"activation": "elu"}])
def test_our_encoders_differ_by_their_settings(options):
    assert mark(small_encoder()) != mark(small_encoder(**options))


def test_training_mode_does_not_count():
    assert mark(sage().eval()) == mark(sage().train())


class WithFunctions(nn.Module):
    """Keeps functions in a tuple, whose ``repr`` holds addresses."""

    def __init__(self, *functions):
        super().__init__()
        self.functions = functions


def test_functions_count_by_name_and_not_by_address():
    def one(x):
        return x

    def other(x):
        return x

    first, second = one, other
    second.__qualname__ = first.__qualname__  # as in another process: same name, other address
    assert mark(WithFunctions(first)) == mark(WithFunctions(second))
    assert mark(WithFunctions(torch.relu)) != mark(WithFunctions(torch.sigmoid))


def test_a_slow_module_has_a_rate_of_its_own():
    model = nn.ModuleDict({"slow": nn.Linear(2, 3), "fast": nn.Linear(3, 1)})
    factory = SlowModule(model["slow"], 0.01)
    groups = factory(model.parameters(), 0.1, 0.0).param_groups
    assert [group["lr"] for group in groups] == [0.1, pytest.approx(0.001)]
    assert [id(p) for p in groups[1]["params"]] == [id(p) for p in model["slow"].parameters()]
    assert len(factory(model["fast"].parameters(), 0.1, 0.0).param_groups) == 1
    marks = [
        fingerprint({"model": sage()}, small_task(), base(), 0, SlowModule(model["slow"], rate))
        for rate in (0.1, 0.2, 0.2)
    ]
    assert marks[1] == marks[2]
    assert {name for name in marks[0] if marks[0][name] != marks[1][name]} == {"optimizer"}
    with pytest.raises(InputError, match="rate is a share"):
        SlowModule(model["slow"], 2.0)


MINE = """
class Mine(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 3)

    def forward(self, x, edge_index):
        return self.lin(torch.dropout(x, 0.5, self.training))
"""


def test_what_a_users_forward_does_is_told_apart():
    """A constant in it is a setting, and a function by name too; a comment is neither."""

    def marked(source):
        names = {"torch": torch, "nn": nn, "__name__": "mine"}
        exec(source, names)
        return mark(names["Mine"]())

    plain = marked(MINE)
    commented = MINE.replace("        return", "        # a comment\n\n        return")
    assert marked(commented) == plain
    for other in (MINE.replace("0.5", "0.1"), MINE.replace("torch.dropout", "torch.alpha_dropout")):
        found = marked(other)
        assert {name for name in plain if plain[name] != found[name]} == {"model"}


PROBE = """
import torch
from torch import nn
from tuneup.train.state import settings_of

class Mine(nn.Module):
    def forward(self, x, edge_index, mode="mean"):
        '''A docstring.'''
        if mode in {"mean", "sum", "max", "min", "std"}:
            return x
        return edge_index

print(settings_of(("", Mine())))
"""


def test_a_users_forward_is_the_same_in_every_process():
    """A set of constants has another order in each: a killed run must know itself again."""
    said = set()
    for seed in ("1", "2", "3", "4"):
        done = subprocess.run(
            [sys.executable, "-c", PROBE],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        said.add(done.stdout)
    assert len(said) == 1
    documented = PROBE.replace("A docstring.", "Another one.")
    changed = PROBE.replace('mode="mean"', 'mode="sum"')
    for source, same in ((documented, True), (changed, False)):
        done = subprocess.run(
            [sys.executable, "-c", source], capture_output=True, text=True, check=True
        )
        assert (done.stdout in said) is same
