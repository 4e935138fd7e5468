"""The comparison of methods, and one table in a terminal, in Markdown and in HTML."""

import io
import math
import re

import numpy as np
import pytest
import torch
from rich.console import Console

from tuneup.errors import InputError
from tuneup.evaluation import MISSING, head_tail
from tuneup.metrics import NodeScores
from tuneup.report import Cell, Row, Table, comparison_table, score_rows
from tuneup.report.table import interval_digits, listed, percent, points, seconds_words

SETTINGS = ("transductive", "inductive", "cold-30", "cold-60", "cold-90")


def make(setting: str, lift: float, n: int = 400) -> NodeScores:
    rng = np.random.default_rng([0, SETTINGS.index(setting)])
    degree = torch.from_numpy((rng.pareto(1.2, n) * 3).astype(np.int64))
    score = torch.from_numpy((rng.random(n) < 0.6 + lift).astype(np.float32))
    return NodeScores(setting, "accuracy", torch.arange(n), degree, score)


def runs(lift: float) -> dict[str, NodeScores]:
    return {setting: make(setting, lift) for setting in SETTINGS}


def printed(table: Table, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(table)
    return console.export_text()


def rows_of(
    base: dict[str, NodeScores], other: dict[str, NodeScores], tail_degree: int = 5
) -> list[Row]:
    models = {"Base": base, "TuneUp": other}
    one = {name: {s: {0: run} for s, run in own.items()} for name, own in models.items()}
    return score_rows(one, tail_degree=tail_degree)


def numbers(text: str) -> list[str]:
    return re.findall(r"[+\N{MINUS SIGN}]?\d[\d,]*(?:\.\d+)?", text)


def test_rows_hold_the_groups_means() -> None:
    base, other = runs(0.0), runs(0.1)
    rows = rows_of(base, other)
    assert len(rows) == 20
    for row in rows:
        if row.group == "isolated":
            before, after = (
                head_tail(each[row.setting].select(each[row.setting].degree == 0))["overall"]
                for each in (base, other)
            )
        else:
            before, after = (head_tail(each[row.setting])[row.group] for each in (base, other))
        assert (row.nodes, row.score("Base"), row.score("TuneUp")) == (
            *(before.count, before.mean, after.mean),
        )
        assert row.before("TuneUp") == pytest.approx(before.mean)
        assert row.gains["TuneUp"].absolute == pytest.approx(after.mean - before.mean)
        assert row.gains["TuneUp"].nodes == row.nodes
    assert "isolated" in {row.group for row in rows}


def test_the_terminal_markdown_and_html_show_the_same_numbers() -> None:
    base, others = runs(0.0), {"TuneUp": runs(0.1)}
    table = comparison_table(base, others, unit="users", tail_degree=3)
    terminal = [
        line for line in printed(table, 100).splitlines() if re.match(r"(known|new|  \d)", line)
    ]
    markdown = table.markdown().splitlines()
    html = re.findall("<tr><th scope=.row.>.*?</tr>", table.html(), re.DOTALL)
    rows = rows_of(base, others["TuneUp"], 3)
    for row, line, cells, marked in zip(rows, terminal, markdown[2:-2], html, strict=True):
        gain = row.gains["TuneUp"]
        expected = [f"{row.nodes:,}", *(f"{100 * each:.2f}" for each in row.scores.values())]
        ends = (gain.absolute, gain.low, gain.high)
        expected += [f"{100 * end:+.2f}".replace("-", "\N{MINUS SIGN}") for end in ends]
        for shown in (line, cells, re.sub("<svg.*?</svg>", "", marked)):
            found = numbers(re.sub("<[^>]*>", " ", shown))[-6:]
            assert [each.lstrip("+") for each in found] == [each.lstrip("+") for each in expected]
    assert markdown[0] == "|  | users | Base | TuneUp | gain, points | 95 % interval |"
    assert markdown[3].startswith("| known users, 0 links | ")
    assert markdown[4].startswith("| known users, 0-3 links | ")
    assert markdown[5].startswith("| known users, 4+ links | ")
    assert markdown[-2:] == ["", table.caption]
    assert table.caption.endswith("95 % interval over users")
    assert table._repr_html_() == table.html()


def test_a_terminal_folds_names_before_digits() -> None:
    width = 72
    text = printed(comparison_table(runs(0.0), {"TuneUp": runs(0.1)}), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert len(re.findall(r"\d\.\d\d %", text)) == 2 * 4 * len(SETTINGS)


def test_several_methods_take_a_line_each() -> None:
    others = {"TuneUp": runs(0.1), "Drop|Edge": runs(0.05)}
    table = comparison_table(runs(0.0), others, base_name="GCN")
    header, rule, *body, _, _ = table.markdown().splitlines()
    assert header == "|  | nodes | GCN | method | score | gain, points | 95 % interval |"
    assert rule == "| :-- | --: | --: | :-- | --: | --: | --: |"
    assert len(body) == 40
    assert all(len(re.findall(r"(?<!\\)\|", line)) == 8 for line in body)
    assert body[1].startswith(r"|  |  |  | Drop\|Edge | ")


def test_names_are_escaped_in_html() -> None:
    nasty = "<b>\"'&"
    html = Table(["", nasty], [[Cell(nasty, "group", note=nasty), nasty]], nasty).html()
    assert "<b>" not in html
    assert html.count("&lt;b&gt;&#34;&#39;&amp;") == 6
    assert "note" not in Table([""], [[Cell("text", note="note")]]).markdown()  # for pages alone


def test_seeds_are_averaged_and_named() -> None:
    def seeds(lift: float) -> dict[str, list[NodeScores]]:
        scores = make("inductive", lift)
        lower = NodeScores("inductive", "accuracy", scores.nodes, scores.degree, scores.score * 0.5)
        return {"inductive": [scores, lower]}

    base, other = seeds(0.0), seeds(0.2)
    table = comparison_table(base, {"TuneUp": other})
    assert "over nodes and 2 seeds" in table.caption
    means = [75 * make("inductive", lift).mean() for lift in (0.0, 0.2)]
    assert list(table.rows[0][2:4]) == [f"{mean:.2f} %" for mean in means]
    with pytest.raises(InputError, match="same seeds of both: in inductive TuneUp has 1 and the b"):
        comparison_table(base, {"TuneUp": {"inductive": other["inductive"][:1]}})


def test_colour_only_where_the_interval_excludes_zero() -> None:
    base = {"inductive": make("inductive", 0.0)}
    for lift, mark in ((0.2, "better"), (-0.2, "worse"), (0.0, "same")):
        table = comparison_table(base, {"TuneUp": {"inductive": make("inductive", lift)}})
        assert table.rows[0][4].mark == mark
        assert f'class="gain {mark}"' in table.html()
        drawn = printed(table, 80)
        assert f"{table.rows[0][4]}" in drawn


def test_groups_of_no_node_and_of_one() -> None:
    whole, lifted = make("cold-90", 0.0), make("cold-90", 0.1)
    tail = whole.degree <= 5
    base = {"cold-90": whole.select(tail)}
    assert [row.group for row in rows_of(base, base)] == ["overall", "isolated", "tail"]
    chosen = tail | (torch.cumsum(~tail, 0) == 1)  # one node of the head
    base, other = ({"cold-90": scores.select(chosen)} for scores in (whole, lifted))
    table = comparison_table(base, {"TuneUp": other})
    assert (table.rows[3][1], table.rows[3][5], table.rows[3][4].mark) == ("1", MISSING, "same")
    assert [picture is None for picture in table.pictures] == [False, False, False, True]


def test_incomplete_comparisons_are_refused() -> None:
    base = runs(0.0)
    partial = {key: base[key] for key in ("transductive", "cold-30", "cold-90")}
    with pytest.raises(InputError, match="TuneUp has no scores for inductive, cold-60"):
        comparison_table(base, {"TuneUp": partial})
    with pytest.raises(InputError, match="at least one setting"):
        comparison_table({}, {})


def test_numbers_are_written_so_that_they_do_not_mislead() -> None:
    """An interval that excludes zero, above all, is not written as if it held zero."""
    ends = [(0.004, 0.5), (-0.5, -0.0004), (-0.004, 0.5), (0.2, 0.5), (0.0, 0.5)]
    assert [interval_digits(low, high, 2) for low, high in ends] == [3, 4, 2, 2, 2]
    assert [percent(value) for value in (0.7802, math.nan, None)] == ["78.0 %", MISSING, MISSING]
    assert [points(value) for value in (0.0737, -0.002, 0.0)] == [
        *("+7.4 points", "\N{MINUS SIGN}0.20 points", "0.00 points")
    ]
    assert [seconds_words(value) for value in (52, 840, 11520)] == ["52 s", "14 min", "3.2 h"]
    assert [listed(names) for names in (["a"], [1, 2], "abc")] == ["a", "1 and 2", "a, b and c"]
