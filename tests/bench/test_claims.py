"""Claims are counted as gains that are made up here say."""

import math
from types import SimpleNamespace

from tuneup.bench.blocks import chosen_blocks
from tuneup.bench.claims import (
    CLAIMS,
    WORDS,
    Lead,
    above_base_table,
    claims_table,
    claims_words,
)
from tuneup.evaluation import Gain


def gain(absolute, low, high, seeds=3, relative=0.0):
    return Gain(absolute, relative, low, high, 0.5, seeds, 100)


class Told:
    """A block whose gains are given, by the methods compared and the setting."""

    def __init__(self, gains, settings, seeds=3):
        self.seeds = {name: set(range(seeds)) for pair in gains for name in pair[:2]}
        self.settings, self._gains = settings, gains

    def gain(self, before, after, setting):
        return self._gains.get((before, after, setting))

    def lacking(self, *methods):
        every = set().union(*self.seeds.values())
        return [seed for name in methods for seed in every - self.seeds.get(name, set())]


def test_a_lead_counts_means_and_intervals_and_one_seed_apart():
    one = Told(
        {
            ("base", "tuneup", "a"): gain(0.2, 0.1, 0.3),
            ("base", "tuneup", "b"): gain(0.1, -0.1, 0.3),
            ("base", "tuneup", "c"): gain(-0.2, -0.3, -0.1),
        },
        ["a", "b", "c"],
    )
    lead = Lead("above", "base")
    assert lead.count([one]) == "2 of 3 (1 clearly, 1 clearly not)"
    alone = Told({("base", "tuneup", "a"): gain(0.2, 0.1, 0.3, seeds=1)}, ["a"], seeds=1)
    assert lead.count([alone]) == "1 of 1 (one seed: 1 clearly, 0 clearly not)"
    assert lead.count([one, alone]) == (
        "3 of 4 (1 clearly, 1 clearly not; one seed: 1 clearly, 0 clearly not)"
    )
    one.seeds["base"].remove(1)
    assert lead.count([one]) == ""


def test_colder_is_more_compares_with_the_setting_before():
    (claim,) = [claim for claim in CLAIMS if claim.text.startswith("the colder")]
    order = ["transductive", "inductive", "cold-30", "cold-60"]
    relative = {"transductive": 9.0, "inductive": 0.1, "cold-30": 0.2, "cold-60": 0.15}
    block = Told(
        {("base", "tuneup", name): gain(0, 0, 0, relative=relative[name]) for name in order}, order
    )
    assert claim.count([block]) == "1 of 2"
    relative["cold-30"] = math.nan  # of a Base that scores nothing: what follows cannot be told
    block = Told(
        {("base", "tuneup", name): gain(0, 0, 0, relative=relative[name]) for name in order}, order
    )
    assert claim.count([block]) == ""


def test_without_curriculum_is_held_against_both_neighbours():
    (claim,) = [claim for claim in CLAIMS if claim.text.startswith("without curriculum")]
    near, far = gain(-0.1, 0, 0), gain(0.2, 0, 0)
    block = Told(
        {
            ("without-curriculum", "dropedge", "a"): near,
            ("without-curriculum", "tuneup", "a"): far,
            ("without-curriculum", "dropedge", "b"): far,
            ("without-curriculum", "tuneup", "b"): near,
            ("without-curriculum", "tuneup", "c"): near,
        },
        ["a", "b", "c"],
    )
    assert claim.count([block]) == "1 of 2"


def test_the_words_name_the_blocks_without_scores_by_node():
    lacking = SimpleNamespace(name="gowalla, sage", means_only="1 of 1", above_base="")
    better = SimpleNamespace(name="amazon-book, sage", means_only="", above_base="")
    assert claims_words([better]) == WORDS
    words = claims_words([better, lacking])
    assert words.startswith(WORDS)
    assert "gowalla, sage (1 of 1)" in words
    assert "amazon-book" not in words


def test_the_words_name_the_blocks_in_which_base_is_below_what_needs_no_training():
    low = SimpleNamespace(name="gowalla, gat", means_only="", above_base="popularity")
    high = SimpleNamespace(name="amazon-book, gat", means_only="", above_base="")
    words = claims_words([low, high])
    assert "gowalla, gat (popularity): that a method" in words
    assert "amazon-book" not in words


def test_a_lead_may_be_of_any_method_over_any_other():
    block = Told({("base", "dropedge", "a"): gain(-0.2, -0.3, -0.1)}, ["a"])
    assert (
        Lead("DropEdge", "base", "dropedge").count([block]) == "0 of 1 (0 clearly, 1 clearly not)"
    )


def cells(table):
    """By the first column and the number of the others."""
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()]
    return {row[0]: [cell.strip() for cell in row[1:]] for row in rows}


def test_the_papers_own_counts_stand_beside_ours(recorded):
    """By hand from its tables of GCN: two graphs of five settings, and two of recommendation."""
    table = cells(claims_table(chosen_blocks(recorded)))
    assert table["claim"] == ["Node classification", "paper", "Recommendation", "paper"]
    assert table["TuneUp is above Base"][1::2] == ["10 of 10", "2 of 2"]
    assert table["TuneUp is above its form without pseudo-labels"][1] == "10 of 10"
    others = cells(above_base_table(chosen_blocks(recorded)))
    assert "TuneUp" not in others
    assert others["DropEdge"][1::2] == ["10 of 10", "1 of 2"]


def test_what_lacks_seeds_is_not_counted():
    order = ["inductive", "cold-30"]
    block = Told({("base", "tuneup", name): gain(0.1, 0, 1) for name in order}, order)
    counted = [claim for claim in CLAIMS if claim.count([block])]
    assert len(counted) == 2  # above Base, and the colder the more
    block.seeds["tuneup"].remove(2)
    assert [claim for claim in CLAIMS if claim.count([block])] == []
