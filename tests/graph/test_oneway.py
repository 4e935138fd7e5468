"""Blocks that are only read forwards give the same numbers as any other, to the last bit."""

from typing import get_args

import pytest
import torch
from graph_oracles import CASES, randn

from tuneup.errors import InputError
from tuneup.graph import Scaling
from tuneup.graph.oneway import OneWay


def one_way(graph):
    return OneWay(
        graph.rowptr, graph.col, graph.num_cols, graph.undirected, graph.ids, graph.degrees
    )


@pytest.mark.parametrize("scaling", get_args(Scaling))
@pytest.mark.parametrize("case", CASES)
def test_products_are_those_of_the_graph(case, scaling):
    graph = CASES[case].graph
    whole = graph.undirected and graph.num_rows == graph.num_cols
    if scaling == "doubly-stochastic" and not whole:
        for refused in (graph, one_way(graph)):
            with pytest.raises(InputError, match="Only a whole undirected graph"):
                refused.matrix(scaling)
        return
    x = randn(graph.num_cols, 3)
    assert torch.equal(one_way(graph).matrix(scaling) @ x, graph.matrix(scaling) @ x)


@pytest.mark.parametrize("case", CASES)
def test_maxima_are_those_of_the_graph(case):
    graph = CASES[case].graph
    x = randn(graph.num_cols, 3)
    assert torch.equal(one_way(graph).max(x), graph.max(x))


def test_an_unknown_scaling_is_refused():
    graph = one_way(next(iter(CASES.values())).graph)
    with pytest.raises(InputError, match="scaling is one of"):
        graph.matrix("median")
