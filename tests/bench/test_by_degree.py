"""Gains by degree are what a naive loop over the nodes finds."""

from types import SimpleNamespace

import pytest
import torch

from tuneup.bench.by_degree import degrees_table
from tuneup.evaluation import MISSING
from tuneup.metrics import NodeScores


def block(degrees, base, tuneup=None):
    """Scores of two rows, a list for each seed."""

    def by_seed(runs):
        return {
            seed: NodeScores(
                "transductive",
                "recall@50",
                torch.arange(len(degrees)),
                torch.tensor(degrees),
                torch.tensor(scores),
            )
            for seed, scores in enumerate(runs)
        }

    scores = {"base": {"transductive": by_seed(base)}}
    if tuneup is not None:
        scores["tuneup"] = {"transductive": by_seed(tuneup)}
    return SimpleNamespace(dataset="gowalla", architecture="gcn", scores=scores)


def test_groups_are_means_over_nodes_and_seeds():
    degrees = [0, 0, 1, 2, 3, 5, 6, 900]
    others = [0.5, 0.2, 0.4, 0.0, 0.5, 0.7]
    base = [[0.1, 0.3, *others], [0.3, 0.5, *others]]
    tuneup = [[0.6, 0.6, 0.5, 0.1, 0.2, 0.4, 0.6, 0.9]] * 2
    head, _, line = degrees_table([block(degrees, base, tuneup)]).splitlines()
    assert head == "| dataset, architecture | 0 | 1 | 2 to 3 | 4 to 5 | 6 and more |"
    assert line == (
        "| gowalla, gcn | 30.0 → 60.0 (+100.0; 25 %) | 50.0 → 50.0 (+0.0; 12 %) "
        f"| 30.0 → 15.0 (-50.0; 25 %) | 0.0 → 40.0 ({MISSING}; 12 %) | 60.0 → 75.0 (+25.0; 25 %) |"
    )


def test_only_seeds_that_both_rows_have_are_compared():
    table = degrees_table([block([1, 1], [[0.2, 0.2], [1.0, 1.0]], [[0.4, 0.4]])])
    cells = [MISSING, "20.0 → 40.0 (+100.0; 100 %)", MISSING, MISSING, MISSING]
    assert table.splitlines()[-1] == f"| gowalla, gcn | {' | '.join(cells)} |"


@pytest.mark.parametrize("blocks", [[], [block([1], [[0.5]])]])
def test_there_is_no_table_without_both_rows(blocks):
    assert degrees_table(blocks) == ""
