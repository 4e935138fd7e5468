"""Claims are counted, and verdicts given, as gains that are made up here say."""

from types import SimpleNamespace

import pytest

from tuneup.bench.claims import CLAIMS, WORDS, Lead, claims_words
from tuneup.bench.rows import Cell
from tuneup.evaluation import Gain, MeanStd


def gain(absolute, low, high, seeds=3, relative=0.0):
    return Gain(absolute, relative, low, high, 0.5, seeds, 100)


class Told:
    """A block whose gains are given, by the methods compared and the setting."""

    def __init__(self, gains, settings, seeds=3):
        names = {name for pair in gains for name in pair[:2]}
        self.records = {name: [None] * seeds for name in names}
        self.settings, self.seeds, self._gains = settings, seeds, gains

    def gain(self, before, after, setting):
        return self._gains.get((before, after, setting))


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(0.1, 0.3, "<"), (-0.3, -0.1, ">"), (-0.1, 0.3, "")]
)
def test_a_verdict_is_where_the_interval_lies(low, high, verdict):
    cell = Cell(MeanStd(0.5, 0.1, 3), None, None, gain(0.1, low, high))
    assert cell.verdict == verdict
    assert Cell(MeanStd(0.5, 0.1, 3), None, None, None).verdict == ""


def test_a_lead_counts_means_and_intervals_and_one_seed_apart():
    one = Told(
        {
            ("base", "tuneup", "a"): gain(0.2, 0.1, 0.3),
            ("base", "tuneup", "b"): gain(0.1, -0.1, 0.3),
            ("base", "tuneup", "c"): gain(-0.2, -0.3, -0.1),
        },
        ["a", "b", "c"],
    )
    lead = Lead("base", "above")
    assert lead.count([one]) == "2 of 3 (1 clearly, 1 clearly not)"
    alone = Told({("base", "tuneup", "a"): gain(0.2, 0.1, 0.3, seeds=1)}, ["a"], seeds=1)
    assert lead.count([alone]) == "1 of 1 (one seed: 1 clearly, 0 clearly not)"
    assert lead.count([one, alone]) == (
        "3 of 4 (1 clearly, 1 clearly not; one seed: 1 clearly, 0 clearly not)"
    )
    one.records["base"].pop()  # it lacks a seed
    assert lead.count([one]) == ""


def test_colder_is_more_compares_with_the_setting_before():
    (claim,) = [claim for claim in CLAIMS if claim.text.startswith("the colder")]
    order = ["transductive", "inductive", "cold-30", "cold-60"]
    relative = {"transductive": 9.0, "inductive": 0.1, "cold-30": 0.2, "cold-60": 0.15}
    block = Told(
        {("base", "tuneup", name): gain(0, 0, 0, relative=relative[name]) for name in order}, order
    )
    assert claim.count([block]) == "1 of 2"


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


def test_a_row_says_where_base_was_kept():
    from tuneup.bench.conditions import kept_base
    from tuneup.bench.rows import Row

    def run(winner, stages, second=None):
        told = [{}, {"settings": {"transductive": second}} if second else {}][:stages]
        return SimpleNamespace(winner=winner, stages=told)

    runs = [run(0, 2, 0.25), run(1, 2), run(0, 2, 0.75)]
    assert list(kept_base(Row("tuneup", runs, None, {}, 3))) == [
        "TuneUp 2 of 3, where stage 2 has 50.00"
    ]
    assert list(kept_base(Row("base", [run(0, 1)], None, {}, 3))) == []  # it has one stage


def test_the_words_name_the_blocks_in_which_base_was_kept():
    names = {"task": "recommendation", "architecture": "sage"}
    kept = SimpleNamespace(dataset="gowalla", base_kept="1 of 1", **names)
    better = SimpleNamespace(dataset="amazon-book", base_kept="", **names)
    assert claims_words([better]) == WORDS
    words = claims_words([better, kept])
    assert words.startswith(WORDS)
    assert "gowalla, recommendation, sage (1 of 1)" in words
    assert "amazon-book" not in words
