"""What of TuneUp's gain is another row's."""

from tests.bench.test_claims import Told, gain
from tuneup.bench.blocks import chosen_blocks
from tuneup.bench.shares import LEAST, shares_table
from tuneup.evaluation import MISSING


def line_of(table, name):
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("| ").split(" | ")][2:]


def test_the_papers_shares_are_those_of_its_table(recorded):
    """GCN on ogbn-arxiv at cold-90, by hand: Base .5491, TuneUp .5916, DropEdge .5632."""
    found = line_of(shares_table(chosen_blocks(recorded)), "node-classification, gcn, ogbn-arxiv")
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
    block.dataset, block.task, block.architecture = "dblp", "link-prediction", "gcn"
    block.shown = None
    found = line_of(shares_table([block]), "link-prediction, gcn, dblp")
    assert found == ["25, -50", MISSING, "100", MISSING, MISSING]


def test_there_is_no_table_where_nothing_is_to_be_shared():
    assert shares_table([]) == ""
