"""Gains by degree are the means over the nodes of a group and over seeds."""

import pytest
import torch

from tuneup.bench.by_degree import FEWEST, degrees_table
from tuneup.bench.gains import signed
from tuneup.bench.records import RunRecord
from tuneup.bench.tables import Block
from tuneup.evaluation import MISSING
from tuneup.metrics import NodeScores


def write(folder, method, seed, by_degree, *, winner=0, second=None):
    """A record whose nodes score alike by their degree: ``{degree: (how many, score)}``."""
    degrees = [d for d, (count, _) in by_degree.items() for _ in range(count)]
    scores = [score for count, score in by_degree.values() for _ in range(count)]
    found = NodeScores(
        "transductive",
        "recall@50",
        torch.arange(len(degrees)),
        torch.tensor(degrees),
        torch.tensor(scores),
    )
    stages = [{"description": method, "best_score": 0.5}] * (1 if method == "base" else 2)
    stages = [*stages[:-1], {**stages[-1], "settings": second}] if second else stages
    RunRecord(
        "gowalla",
        "recommendation",
        "gcn",
        method,
        seed,
        {"recall@50": 0.5},
        {"recall@50": found.mean()},
        {"transductive": found.mean()},
        {},
        stages,
        winner,
        [],
        1.0,
    ).write(folder, [found])


def lines_of(folder, preset="short"):
    block = Block(folder, "gowalla", "recommendation", "gcn", preset=preset)
    return degrees_table([block]).splitlines()


def table_of(folder, preset="short"):
    """Without the words below it."""
    return lines_of(folder, preset)[:-2]


def test_groups_are_means_over_nodes_and_seeds(tmp_path):
    n = FEWEST
    for seed, lonely in enumerate((0.1, 0.5)):
        write(
            tmp_path,
            "base",
            seed,
            {0: (n, lonely), 1: (n - 1, 0.5), 2: (n, 0.2), 3: (n, 0.4), 5: (n, 0.0), 900: (n, 0.8)},
        )
        write(
            tmp_path,
            "tuneup",
            seed,
            {0: (n, 0.6), 1: (n - 1, 0.5), 2: (n, 0.1), 3: (n, 0.2), 5: (n, 0.4), 900: (n, 0.8)},
            winner=1,
        )
    head, _, line = table_of(tmp_path)
    assert head == "| dataset, architecture | 0 | 1 | 2 to 3 | 4 to 5 | 6 and more |"
    assert line == (
        f"| gowalla, gcn | 30.0 → 60.0 (+100.0; 17 %) | {MISSING} | 30.0 → 15.0 (-50.0; 33 %) "
        f"| 0.0 → 40.0 ({MISSING}; 17 %) | 80.0 → 80.0 (+0.0; 17 %) |"
    )
    words = "TuneUp's mean is above Base's in 2 of these 4 groups, and below it in 1."
    assert lines_of(tmp_path)[-1] == words


def test_a_run_that_release_0_1_gave_back_to_base_has_the_means_of_stage_2(tmp_path):
    for seed in (0, 1):
        write(tmp_path, "base", seed, {1: (FEWEST, 0.2)})
    write(tmp_path, "tuneup", 0, {1: (FEWEST, 0.4)}, winner=1)
    write(tmp_path, "tuneup", 1, {1: (FEWEST, 0.2)}, second={"transductive": 0.1})
    block = Block(tmp_path, "gowalla", "recommendation", "gcn")
    cell = next(row for row in block.rows if row.method == "tuneup").cells["transductive"]
    assert cell.score.mean == pytest.approx(0.25)
    gain = block.gain("base", "tuneup", "transductive")
    assert (gain.seeds, gain.absolute) == (1, pytest.approx(0.2))
    assert "gowalla, gcn; without 1 of 2 runs" in table_of(tmp_path)[-1]


def test_only_seeds_that_both_rows_have_are_compared(tmp_path):
    write(tmp_path, "base", 0, {1: (FEWEST, 0.2)})
    assert lines_of(tmp_path) == []  # one row alone is no comparison
    write(tmp_path, "base", 1, {1: (FEWEST, 1.0)})
    write(tmp_path, "tuneup", 0, {1: (FEWEST, 0.4)})
    cells = [MISSING, "20.0 → 40.0 (+100.0; 100 %)", MISSING, MISSING, MISSING]
    name = "gowalla, gcn, paper preset"
    assert table_of(tmp_path, "paper")[-1] == f"| {name} | {' | '.join(cells)} |"


def test_there_is_no_table_without_blocks():
    assert degrees_table([]) == ""


def test_no_gain_has_no_minus():
    assert signed(-0.0001) == "+0.0"
    assert signed(-0.0006) == "-0.1"


@pytest.mark.parametrize(
    ("group", "nodes", "expected"), [("overall", 50, 0.16), ("tail", 30, 0.2), ("head", 20, 0.1)]
)
def test_the_gain_of_a_group_is_that_of_its_nodes(tmp_path, group, nodes, expected):
    write(tmp_path, "base", 0, {5: (30, 0.1), 6: (20, 0.5)})
    write(tmp_path, "tuneup", 0, {5: (30, 0.3), 6: (20, 0.6)}, winner=1)
    block = Block(tmp_path, "gowalla", "recommendation", "gcn")
    gain = block.gain("base", "tuneup", "transductive", group)
    assert gain.nodes == nodes
    assert gain.absolute == pytest.approx(expected)
