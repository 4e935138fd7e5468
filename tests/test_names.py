"""The names at the top of the package: each has a docstring with an example that runs."""

import ast
import inspect
import re
import textwrap
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch_geometric.data import Data

import tuneup
from tuneup import names
from tuneup.data import block_graph, block_interactions, split_nodes
from tuneup.methods import registry
from tuneup.nn import Encoder
from tuneup.tasks import NodeClassification

NAMES = sorted({*tuneup.__all__} - {"__version__"})
CONSTANTS = {"METHODS": registry, "Selection": names}
"""Names without an object that holds a docstring: where they are defined."""


def examples_of(docstring: str) -> list[str]:
    """The indented blocks after "Example::"."""
    found = re.findall(
        r"Example.*::\n\n((?:(?: {4,}.*)?\n)+)", f"{inspect.cleandoc(docstring)}\n\n"
    )
    return [textwrap.dedent(block) for block in found]


def docstring_of(name: str) -> str:
    """Of a constant, the text below its assignment."""
    if name in CONSTANTS:
        body = ast.parse(inspect.getsource(CONSTANTS[name])).body
        for assignment, text in pairwise(body):
            targets = [getattr(assignment, "target", None), *getattr(assignment, "targets", [])]
            if any(isinstance(each, ast.Name) and each.id == name for each in targets):
                return str(ast.literal_eval(text.value))  # type: ignore[attr-defined]
    found = tuneup.data.load_dataset if name == "load_dataset" else getattr(tuneup, name)
    return found.__doc__ or ""


def prelude() -> dict[str, object]:
    """What the examples take for granted: data, a model, a task and a short schedule."""
    graph = block_graph(200, 800, 4, 8)
    split = split_nodes(200, labelled=0.4, new=0.0)
    masks = {}
    for name, nodes in (("train", split.train), ("val", split.validation)):
        masks[f"{name}_mask"] = torch.zeros(200, dtype=torch.bool).index_fill_(0, nodes, True)
    edge_index = graph.adjacency.edge_index
    encoder = Encoder(8, 4, width=8)
    return {
        "tuneup": tuneup,
        "torch": torch,
        "graph": graph,
        "pairs": block_interactions(60, 60, 800, 4),
        "data": Data(x=graph.x, y=graph.y, edge_index=edge_index, **masks),
        "x": graph.x,
        "edge_index": edge_index,
        "epochs": 2,
        "train": split.train,
        "validation": split.validation,
        "train_mask": masks["train_mask"],
        "val_mask": masks["val_mask"],
        "encoder": encoder,
        "model": Encoder(8, 4, width=8),
        "z": torch.rand(6, 4),
        "task": NodeClassification(graph, split.train, split.validation),
        "schedule": tuneup.Schedule(epochs=2),
    }


def test_about_two_dozen_names_and_no_module_among_them() -> None:
    assert 20 <= len(NAMES) <= 28
    assert not [name for name in NAMES if isinstance(getattr(tuneup, name), ModuleType)]
    with pytest.raises(AttributeError, match="no attribute 'train_all'"):
        tuneup.train_all  # noqa: B018


def test_every_name_has_an_example_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tuneup, "load_dataset", lambda name: name)
    for name in NAMES:
        examples = examples_of(docstring_of(name))
        assert examples, name
        for example in examples:
            exec(compile(example, name, "exec"), prelude())
