import re
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from rich.console import Console
from rich.table import Table

from tuneup.errors import InputError
from tuneup.evaluation import MISSING, head_tail
from tuneup.metrics import NodeScores
from tuneup.report import comparison_markdown, comparison_table
from tuneup.report.comparison import comparison_rows
from tuneup.report.labels import interval_digits, setting_words

SETTINGS = ("transductive", "inductive", "cold-30", "cold-60", "cold-90")


def make(setting: str, lift: float, n: int = 400, seed: int = 0) -> NodeScores:
    rng = np.random.default_rng([seed, SETTINGS.index(setting)])
    degree = torch.from_numpy((rng.pareto(1.2, n) * 3).astype(np.int64))
    score = torch.from_numpy((rng.random(n) < 0.6 + lift).astype(np.float32))
    return NodeScores(setting, "accuracy", torch.arange(n), degree, score)


def runs(lift: float, n: int = 400) -> dict[str, NodeScores]:
    return {setting: make(setting, lift, n) for setting in SETTINGS}


def printed(table: Table, width: int) -> str:
    console = Console(width=width, record=True, force_terminal=False, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


def numbers(text: str) -> list[str]:
    return re.findall(r"[+-]?\d[\d,]*(?:\.\d+)?", text)


def test_rows_hold_the_groups_means() -> None:
    base, other = runs(0.0), runs(0.1)
    rows = comparison_rows(base, {"TuneUp": other})
    assert len(rows) == 15
    for row in rows:
        before, after = (head_tail(each[row.setting])[row.group] for each in (base, other))
        assert (row.nodes, row.base, row.score) == (before.count, before.mean, after.mean)
        assert row.gain is not None
        assert row.gain.absolute == pytest.approx(after.mean - before.mean)
        assert row.gain.nodes == row.nodes


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("n", [400, 100_000])
def test_terminal_table_is_whole_at_common_widths(width: int, n: int) -> None:
    table = comparison_table(runs(0.0, n), {"TuneUp": runs(0.1, n)}, title="Closing table")
    text = printed(table, width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in text
    for setting in ("transductive", "inductive", "cold 30 %", "cold 60 %", "cold 90 %"):
        (start,) = (index for index, line in enumerate(lines) if line.startswith(setting))
        assert f"{n:,}" in lines[start]
        assert lines[start + 1].startswith("  tail")
        assert lines[start + 2].startswith("  head")


def test_table_and_markdown_say_the_same() -> None:
    base, others = runs(0.0), {"TuneUp": runs(0.1)}
    rows = comparison_rows(base, others)
    markdown = comparison_markdown(base, others).splitlines()[2:17]
    table = [
        line
        for line in printed(comparison_table(base, others), 80).splitlines()
        if re.match(r"(transductive|inductive|cold|  tail|  head)", line)
    ]
    for row, cells, line in zip(rows, markdown, table, strict=True):
        assert row.gain is not None
        expected = [f"{row.nodes:,}", f"{100 * row.base:.2f}", f"{100 * row.score:.2f}"]
        expected += [f"{100 * row.gain.absolute:+.2f}", f"{100 * row.gain.relative:+.1f}"]
        expected += [f"{100 * row.gain.low:.2f}", f"{100 * row.gain.high:.2f}"]
        assert numbers(cells)[-7:] == expected
        assert numbers(line)[-7:] == expected


def test_markdown_is_a_table_with_one_width() -> None:
    others = {"TuneUp": runs(0.1), "Drop|Edge": runs(0.05)}
    text = comparison_markdown(runs(0.0), others, base_name="GCN", tail_degree=3)
    header, rule, *body, blank, note = text.splitlines()
    assert header == "|  | nodes | GCN | method | score | gain | in % | 95% interval |"
    assert rule == "| :-- | --: | --: | :-- | --: | --: | --: | --: |"
    assert len(body) == 30
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 9 for line in body)
    assert body[0].startswith("| transductive, all | 400 | ")
    assert body[1].startswith(r"|  |  |  | Drop\|Edge | ")
    assert body[2].startswith("| transductive, tail | ")
    assert (blank, "degree 0-3" in note, "over nodes;" in note) == ("", True, True)


def test_seeds_are_averaged_and_named() -> None:
    def seeds(lift: float) -> Mapping[str, list[NodeScores]]:
        scores = make("inductive", lift)
        lower = NodeScores("inductive", "accuracy", scores.nodes, scores.degree, scores.score * 0.5)
        return {"inductive": [scores, lower]}

    (overall, *_) = comparison_rows(seeds(0.0), {"TuneUp": seeds(0.2)})
    assert overall.base == pytest.approx(0.75 * make("inductive", 0.0).mean())
    assert overall.gain is not None
    assert overall.gain.seeds == 2
    text = printed(comparison_table(seeds(0.0), {"TuneUp": seeds(0.2)}), 120)
    assert "over nodes and 2 seeds" in " ".join(text.split())


def test_colour_only_where_the_interval_excludes_zero() -> None:
    base = {"inductive": make("inductive", 0.0)}
    for lift, style in ((0.2, "green"), (-0.2, "red"), (0.0, "dim")):
        table = comparison_table(base, {"TuneUp": {"inductive": make("inductive", lift)}})
        styles = {str(getattr(cell, "style", "")) for cell in table.columns[-1].cells}
        assert style in styles


def test_a_group_without_nodes_is_shown_as_missing() -> None:
    scores = make("cold-90", 0.0)
    only_tail = scores.select(scores.degree <= 5)
    base = {"cold-90": only_tail}
    *_, head = comparison_rows(base, {"TuneUp": base})
    assert (head.group, head.nodes, head.gain) == ("head", 0, None)
    last = comparison_markdown(base, {"TuneUp": base}).splitlines()[4]
    assert last == f"| cold 90 %, head | 0 | {' | '.join([MISSING] * 5)} |"


def test_one_node_has_a_gain_but_no_interval() -> None:
    whole, lifted = make("cold-90", 0.0), make("cold-90", 0.1)
    tail = whole.degree <= 5
    keep = tail | (torch.cumsum(~tail, 0) == 1)  # one node of the head
    base, other = ({"cold-90": scores.select(keep)} for scores in (whole, lifted))
    *_, row = comparison_rows(base, {"TuneUp": other})
    assert (row.group, row.nodes) == ("head", 1)
    _, tail_line, head_line = comparison_markdown(base, {"TuneUp": other}).splitlines()[2:5]
    assert head_line.endswith(f" | {MISSING} |")
    assert not tail_line.endswith(f" | {MISSING} |")
    table = comparison_table(base, {"TuneUp": other})
    *_, interval = table.columns[-1].cells
    assert (str(interval), interval.style) == (MISSING, "dim")


def test_users_are_called_so() -> None:
    base, others = runs(0.0), {"TuneUp": runs(0.1)}
    markdown = comparison_markdown(base, others, unit="users")
    assert markdown.startswith("|  | users |")
    assert "paired, over users;" in markdown
    text = printed(comparison_table(base, others, unit="users"), 80)
    assert "nodes" not in text


def test_incomplete_comparisons_are_refused() -> None:
    base = runs(0.0)
    partial = {key: base[key] for key in ("transductive", "cold-30", "cold-90")}
    with pytest.raises(InputError, match="TuneUp has no scores for inductive, cold-60, which"):
        comparison_table(base, {"TuneUp": partial})
    with pytest.raises(InputError, match="at least one setting"):
        comparison_table({}, {})


@pytest.mark.parametrize("width", [60, 80, 120])
def test_plain_words_are_those_of_the_report(width: int) -> None:
    base = runs(0.0)
    text = printed(comparison_table(base, {"TuneUp": runs(0.1)}, unit="users", plain=True), width)
    told = " ".join(text.split())
    for expert in ("transductive", "inductive", "cold", "tail", "head", "degree"):
        assert expert not in told
    assert max(map(len, text.splitlines())) <= width
    assert told.count("few links") == len(base) + 1  # and what that means, once
    if width > 60:  # where names are not folded
        for setting in base:
            assert setting_words(setting, "users") in text


@pytest.mark.parametrize(
    ("low", "high", "digits"),
    [(0.004, 0.5, 3), (-0.5, -0.0004, 4), (-0.004, 0.5, 2), (0.2, 0.5, 2), (0.0, 0.5, 2)],
)
def test_an_interval_beside_zero_does_not_seem_to_hold_it(low, high, digits) -> None:
    assert interval_digits(low, high, 2) == digits
