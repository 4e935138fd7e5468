"""What of TuneUp's gain is another row's."""

import math

from tests.bench.test_claims import Told, gain
from tuneup.bench.blocks import chosen_blocks
from tuneup.bench.shares import LEAST, shares_table
from tuneup.evaluation import MISSING

PAIR = ("tuneup", "dropedge")


def line_of(table, name):
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("| ").split(" | ")][2:]


def test_the_papers_shares_are_those_of_its_table(recorded):
    """GCN on ogbn-arxiv at cold-90, by hand: Base .5491, TuneUp .5916, DropEdge .5632."""
    found = line_of(shares_table(chosen_blocks(recorded)), "ogbn-arxiv, node-classification, gcn")
    assert found[-1] == "33, 27, 18, 23"


def test_ours_are_shares_of_the_gain_where_there_is_one():
    gains = {
        ("base", "tuneup", "transductive"): gain(0.2, 0, 1, relative=0.5),
        ("base", "dropedge", "transductive"): gain(0.05, 0, 1),
        ("base", "without-syn-tails", "transductive"): gain(-0.1, 0, 1),
        ("base", "tuneup", "inductive"): gain(0.001, 0, 1, relative=LEAST / 2),
        ("base", "dropedge", "inductive"): gain(0.05, 0, 1),
        ("base", "tuneup", "cold-30"): gain(0.1, 0, 1, relative=LEAST),
        ("base", "without-curriculum", "cold-30"): gain(0.1, 0, 1),
    }
    block = Told(gains, ["transductive", "inductive", "cold-30"])
    block.name, block.task, block.architecture = "mine", "link-prediction", "gcn"
    block.shown = None
    assert line_of(shares_table([block]), "mine") == ["25, -50", MISSING, "100", MISSING, MISSING]
    block.seeds["dropedge"].remove(0)  # its part would be one of other seeds
    assert line_of(shares_table([block]), "mine")[0] == "-50"
    block.seeds["base"].remove(0)
    assert " mine " not in shares_table([block])


def test_of_a_base_that_scores_nothing_there_is_no_share():
    gains = {("base", name, "transductive"): gain(0.2, 0, 1, relative=math.nan) for name in PAIR}
    block = Told(gains, ["transductive"])
    block.name, block.task, block.architecture, block.shown = "mine", "links", "gcn", None
    assert shares_table([block]) == ""


def test_there_is_no_table_where_nothing_is_to_be_shared():
    assert shares_table([]) == ""
