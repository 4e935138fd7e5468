"""The page without a browser: what it says, that it is safe, and that it needs nothing else."""

import re
from dataclasses import replace

import pytest
import torch

from tests.report.pages import SETTINGS, Page, class_summary, method, run, scores
from tuneup.errors import InputError
from tuneup.metrics import NodeScores
from tuneup.report import MethodSummary, RunSummary, SeedRun
from tuneup.report.page import page_html, write_page
from tuneup.train import Dial, TrainingRecord

ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u2028"


def test_all_sections_are_there_in_their_order():
    page = Page(page_html([run()]))
    assert page.sections == [
        *("trained", "good", "where", "cold", "training", "selection", "data", "reproduce"),
        "glossary",
    ]
    assert "tuneup demo --seed 0" in page.text
    assert "400" in page.texts["good-heading"]
    linked = {a["href"] for tag, a in page.tags if tag == "a"}
    assert {f"#{name}" for name in page.sections} <= linked


def test_what_a_run_lacks_is_left_out():
    bare = RunSummary(
        "bare",
        "node-classification",
        "sage",
        "accuracy",
        [
            MethodSummary(
                "Mine", [SeedRun(0, dict(list(method("x", 0, 1, 0).runs[0].scores.items())[:1]))]
            )
        ],
    )
    page = Page(page_html([bare]))
    assert page.sections == ["trained", "good", "where", "data", "reproduce", "glossary"]
    assert page.headline.startswith("Mine reaches ")
    assert "no gain to report" in page.text
    assert "was not recorded" in page.text


def test_it_shows_which_settings_were_tried():
    tried, given = (page_html([run(trials=trials)]) for trials in (True, False))
    assert "Trials of TuneUp" in tried
    assert "How settings were chosen" not in given


def test_the_dial_and_the_verdict_are_shown():
    dial = Dial((0.0, 0.5, 1.0), (0.7, 0.72, 0.71), {0.0: (0.8, 0.8, 0.7), 0.9: (0.6,) * 3}, 0.5)
    simple = {"majority": run().methods[0].runs[0].scores}
    made = replace(run(), record=TrainingRecord(0, "accuracy", dial=dial))
    page = Page(page_html([replace(made, verdict=["First.", "Then."], floors=simple)]))
    assert page.headline == "First."
    assert "First. Then." in page.text
    assert "How cold are your nodes?" in page.text
    assert "90\xa0% removed" in page_html([made])
    assert "majority" in page.text
    assert "best simple model" in page.text


def test_it_needs_nothing_from_anywhere():
    html = page_html([run()])
    page = Page(html)
    for tag, attributes in page.tags:
        assert tag not in ("link", "img", "iframe", "base")
        assert not {"src", "srcset", "data", "style"} & set(attributes), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes)
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", html)
    assert "default-src 'none'" in html
    assert len(html.encode()) < 120_000


def test_names_in_somebodys_data_stay_text():
    nasty = run(title=ATTACK)
    methods = [
        replace(m, name=f"{m.name}{ATTACK}") if k else m for k, m in enumerate(nasty.methods)
    ]
    nasty = replace(
        nasty,
        methods=methods,
        data={ATTACK: ATTACK},
        command=ATTACK,
        configuration={ATTACK: ATTACK},
        versions={ATTACK: ATTACK},
        architecture=ATTACK,
    )
    html = page_html([nasty])
    page = Page(html)
    assert page.count("script") == 2, "the data and the program, and nothing else"
    assert page.count("img") == 0
    assert "<script>alert" not in html
    assert ATTACK in str(page.data["series"][1]["name"])
    assert page.texts["command"].startswith(ATTACK)
    one = run().methods[0].runs[0].scores["transductive"]
    odd = NodeScores(ATTACK, ATTACK, one.nodes, one.degree, one.score)
    summary = RunSummary(
        "x",
        ATTACK,
        ATTACK,
        ATTACK,
        [MethodSummary("Base", [SeedRun(0, {ATTACK: odd})])],
        unit=ATTACK,
    )
    html = page_html([summary])
    assert Page(html).count("script") == 2
    assert "<script>alert" not in html


def test_the_headline_says_what_the_numbers_say():
    for made, words in (
        (run(0.1), "TuneUp helped: "),
        (run(-0.1), "TuneUp hurt: "),
        (run(0.003), "made no significant difference"),
        (run(0.0, winner=0), "the base model was selected"),
    ):
        page = Page(page_html([made]))
        assert words in page.headline
        tail = made.methods[0].runs[0].scores["transductive"]
        few = tail.select(tail.degree <= 5)
        assert f"{100 * few.mean():.1f} %" in page.headline


def test_a_guard_that_helped_some_seeds_only_is_told():
    made = run(0.1, seeds=3)
    first, *others = made.methods[1].runs
    mixed = replace(made.methods[1], runs=[replace(first, winner=0), *others])
    page = Page(page_html([replace(made, methods=[made.methods[0], mixed])]))
    assert "In 1 of 3 trainings" in page.text


def test_every_chart_has_its_numbers_in_a_table():
    page = Page(page_html([run()]))
    charts = page.data["charts"]
    assert {name: len(views) for name, views in charts.items()} == {
        "where": len(SETTINGS),
        "cold": 1,
        "training": 2,
    }
    assert page.count("figure") == page.count("details") == 3
    view = charts["where"][0]
    assert sum(view["counts"][0]["values"]) == 400
    assert len(view["x"]["labels"]) == len(view["counts"][0]["values"])
    for each in view["series"]:
        for _, mean, low, high, *_ in each["lines"][0]:
            assert low <= mean <= high
    assert [point[0] for point in charts["cold"][0]["series"][0]["lines"][0]] == [0, 30, 90]


def test_a_first_stage_that_is_the_bases_is_drawn_once():
    (score, _) = Page(page_html([run()])).data["charts"]["training"]
    base, tuneup = score["series"]
    assert [stage["start"] for stage in score["stages"]] == [0, 20]
    assert base["lines"][0][0][0] == 2
    assert tuneup["lines"][0][0][0] == 22


def test_curves_are_thinned_to_what_can_be_seen():
    long = [(0, e, 1 / e, e / 20_000) for e in range(1, 10_001)]
    made = run()
    runs = [replace(made.methods[0].runs[0], curve=long)]
    html = page_html([replace(made, methods=[replace(made.methods[0], runs=runs)])])
    line = Page(html).data["charts"]["training"][0]["series"][0]["lines"][0]
    assert len(line) <= 2401
    assert line[-1][0] == 10_000


def test_empty_groups_and_single_nodes_are_no_reason_to_fail():
    one = NodeScores("transductive", "accuracy", *map(torch.tensor, ([3], [1], [1.0])))
    none = NodeScores(
        "inductive",
        "accuracy",
        *(torch.zeros(0, dtype=d) for d in (torch.int64, torch.int64, torch.float32)),
    )
    methods = [
        MethodSummary(name, [SeedRun(0, {"transductive": one, "inductive": none})])
        for name in ("Base", "TuneUp")
    ]
    page = Page(page_html([replace(run(), methods=methods)]))
    assert "nan" not in page.text.lower()


def test_runs_are_compared_on_the_same_nodes():
    page = Page(page_html([run(0.0, title="a"), run(0.1, title="b")], ["runs/a", "runs/b"]))
    assert page.headline.startswith("b does best: ")
    assert "b minus a" in page.text
    names = [each["name"] for each in page.data["series"]]
    assert names == ["a · Base", "a · TuneUp", "b · Base", "b · TuneUp"]
    assert page.data["charts"]["where"][0]["countsColoured"]


def test_runs_of_other_numbers_of_seeds_are_compared_over_those_they_share():
    """Not called runs of other nodes: three trainings of one, and two of the other."""
    few, many = run(0.0, title="a", seeds=2), run(0.1, title="b", seeds=3)
    page = Page(page_html([few, many], ["runs/a", "runs/b"]))
    assert "different nodes" not in page.headline
    assert page.headline.endswith(", of 2 trainings each).")
    apart = replace(few.methods[1], runs=[replace(few.methods[1].runs[0], seed=9)])
    page = Page(page_html([replace(few, methods=[apart]), many], ["runs/a", "runs/b"]))
    assert ", of 1 training each)" in page.headline  # none in common


def test_base_is_shown_over_the_seeds_that_it_is_compared_on():
    """Beside a method that lacks seeds stands the Base that its gain is over."""
    every = run(seeds=3)
    base, tuneup = every.methods
    fewer = replace(tuneup, name="DropEdge", runs=tuneup.runs[2:])
    text = page_html([replace(every, methods=[base, fewer, tuneup])])
    for seeds in ([2], [0, 1, 2]):
        mean = sum(scores("transductive", 0.0, seed).mean() for seed in seeds) / len(seeds)
        assert f"{100 * mean:.2f}" in text
    assert "DropEdge (seed 2)" in text


def test_different_nodes_give_no_interval():
    other = run(0.1, title="b")
    shift = {
        s: replace(v, nodes=v.nodes + 1000) for s, v in other.methods[1].runs[0].scores.items()
    }
    moved = replace(other.methods[1], runs=[replace(other.methods[1].runs[0], scores=shift)])
    page = Page(page_html([run(), replace(other, methods=[moved])], ["a", "b"]))
    assert "scored different nodes" in page.headline


def test_runs_that_cannot_be_compared_are_refused():
    other = replace(run(), task="link-prediction", title="links")
    with pytest.raises(InputError, match=r"only runs of one task .* links has link-prediction"):
        page_html([run(), other])
    with pytest.raises(InputError, match="at most 8 runs"):
        page_html([run()] * 9)
    with pytest.raises(InputError, match="at least one run"):
        page_html([])


def test_summaries_check_themselves():
    with pytest.raises(InputError, match="one metric"):
        replace(run(), metric="recall@50")
    with pytest.raises(InputError, match="no method has scores"):
        replace(run(), methods=[])
    with pytest.raises(InputError, match="must be unique"):
        replace(run(), methods=[run().methods[0]] * 2)


def test_a_page_is_the_same_twice_and_written_whole(tmp_path):
    write_page(tmp_path / "a.html", [run()])
    assert (tmp_path / "a.html").read_text() == page_html([run()])
    assert [path.name for path in tmp_path.iterdir()] == ["a.html"]


def test_measures_of_classes_are_shown():
    for classes in (2, 3, 14):
        base, tuneup = run().methods
        methods = [base, replace(tuneup, name="Result")]
        found = class_summary(classes=classes)
        page = Page(page_html([replace(run(), methods=methods, classes=found)]))
        assert f"{found.score_words} on known nodes with few links" in page.headline
        assert "classes" in page.sections
        assert "Classes" in page.words
        for words in ("Class by class", "macro-F1", "log loss", "1.50 for those with links"):
            assert words in page.text, words
        assert ("as c0" in page.text) == (classes == 3)
        assert ("The commonest confusions" in page.text) == (classes == 14)
