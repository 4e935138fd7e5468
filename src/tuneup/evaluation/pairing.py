"""What two methods must have in common before their scores are compared node by node."""

from collections.abc import Sequence

import torch

from tuneup.errors import InputError
from tuneup.metrics import NodeScores


def as_runs(scores: NodeScores | Sequence[NodeScores]) -> Sequence[NodeScores]:
    """One run's scores, or those of several seeds, as the latter."""
    return [scores] if isinstance(scores, NodeScores) else scores


def check_paired(base: Sequence[NodeScores], other: Sequence[NodeScores]) -> None:
    """Refuse runs that are not seed for seed of one setting, metric, set of nodes and input graph.

    The order of the nodes may differ from run to run.
    """
    if not base or len(base) != len(other):
        raise InputError(
            "a paired gain needs the same seeds of both methods, at least one; "
            f"got {len(base)} of the base and {len(other)} of the other"
        )
    first = base[0]
    if not len(first):
        raise InputError(f"a paired gain needs at least one node, got none in {first.setting}")
    for name, runs in (("base", base), ("other", other)):
        for index, run in enumerate(runs):
            _check_same(f"{name}[{index}]", run, first)


def _check_same(where: str, run: NodeScores, first: NodeScores) -> None:
    """Refuse a run that is not on the same task, nodes and input graph as ``first``."""
    named, expected = (f"{each.metric} in the {each.setting} setting" for each in (run, first))
    if named != expected:
        raise InputError(
            f"a paired gain compares like with like: {where} is {named}, not {expected}"
        )
    if torch.equal(run.nodes, first.nodes) and torch.equal(run.degree, first.degree):
        return  # in the same order, as records have them: nothing to sort
    mine, order = run.nodes.argsort(), first.nodes.argsort()
    if not torch.equal(run.nodes[mine], first.nodes[order]):
        raise InputError(
            f"a paired gain needs the same nodes everywhere: {where} scores {len(run)} nodes, "
            f"base[0] {len(first)}, not the same ones; were both runs split with one split seed?"
        )
    if not torch.equal(run.degree[mine], first.degree[order]):
        raise InputError(
            f"a paired gain needs one input graph: in {where} some degrees differ from base[0]'s"
        )
