"""What is shown of records: tables in every form, figures, the page of results."""

import json
import re
import shutil
from collections import defaultdict
from copy import copy
from dataclasses import replace

import pytest
import torch
from matplotlib.image import imread

from tests.bench.conftest import METHODS
from tuneup.bench import figures, rendering
from tuneup.bench.blocks import chosen_blocks, every_block
from tuneup.bench.by_degree import FEWEST, GROUPS, degrees_table
from tuneup.bench.gains import signed
from tuneup.bench.paper import paper_table
from tuneup.bench.records import read_records, without_shared
from tuneup.bench.rows import Row
from tuneup.bench.tables import Block
from tuneup.cli import app
from tuneup.errors import InputError
from tuneup.evaluation import MISSING, TAIL_DEGREE, over_seeds, paired_gain
from tuneup.metrics import read_scores, write_scores
from tuneup.report.curves import shared_curves

GREY = "#777777"


def test_a_block_is_what_its_records_say(recorded):
    block = Block(recorded / "node-classification", "dblp", "node-classification", "gcn")
    records = read_records(block.results)
    rows = {row.method: row for row in block.rows}
    assert list(rows) != list(METHODS)  # methods without a record have a row too
    assert rows["rawls-gcn"].deviation == "not run"
    for setting in block.settings:
        own = {name: [r.settings[setting] for r in records if r.method == name] for name in METHODS}
        for name in METHODS:
            cell = rows[name].cells[setting]
            assert cell.score == over_seeds(own[name])
            if name != "base":
                base, mine = (
                    [block.scores[n][setting][seed] for seed in range(3)] for n in ("base", name)
                )
                expected = paired_gain(base, mine)
                assert replace(cell.over_base, p_value=expected.p_value) == expected
                assert block.p_value("base", name, setting) == expected.p_value
        assert rows["tuneup"].cells[setting].under_tuneup is None
        assert rows["base"].cells[setting].over_base is None
    assert rows["tuneup"].trials == 3
    assert rows["base"].trials == 3


def test_a_row_that_was_run_is_never_hidden(recorded, tmp_path):
    """With other architectures only Base and TuneUp are asked for; others show where they are."""
    folder = tmp_path / "node-classification"
    shutil.copytree(recorded / "node-classification", folder)
    for path in folder.glob("dblp-gcn-*.json"):
        record = json.loads(path.read_text()) | {"architecture": "gat"}
        if record["method"] == "dropedge":
            record["config"]["dropout"] = 0.9  # of another choice: left out
        path.rename(other := folder / path.name.replace("gcn", "gat"))
        other.write_text(json.dumps(record))
        parquet = path.with_suffix(".parquet")
        parquet.rename(other.with_suffix(".parquet"))
    rows = Block(folder, "dblp", "node-classification", "gat").rows
    assert [row.method for row in rows] == ["base", "dropedge", "tuneup"]
    assert rows[1].deviation == "0 of 3 seeds, 3 of other settings or Base left out"


def test_a_row_of_fewer_seeds_is_never_the_best(recorded, tmp_path):
    folder = tmp_path / "node-classification"
    shutil.copytree(recorded / "node-classification", folder)
    for seed in (1, 2):
        (folder / f"dblp-gcn-tuneup-{seed}.json").unlink()
    path = folder / "dblp-gcn-tuneup-0.json"
    record = json.loads(path.read_text())
    record["settings"] = dict.fromkeys(record["settings"], 1.0)
    path.write_text(json.dumps(record))
    scores = path.with_suffix(".parquet")
    write_scores(scores, [replace(s, score=torch.ones_like(s.score)) for s in read_scores(scores)])
    block = Block(folder, "dblp", "node-classification", "gcn")
    *lines, _ = rendering.lines(block, lambda text: f"**{text}**")
    best = {line[0] for line in lines for text in line if text.startswith("**")}
    assert best
    assert "TuneUp (1 of 3 seeds)" in {line[0] for line in lines} - best


def test_markdown_and_latex_have_a_line_a_method(recorded):
    (block,) = chosen_blocks(recorded, task="node-classification")
    lines = rendering.markdown(block).splitlines()
    assert len(lines) == 2 + len(block.rows) + 1
    assert lines[0].startswith("| accuracy, % | chosen | trials | transductive | inductive |")
    assert all(line.count("|") == lines[0].count("|") for line in lines)
    assert sum("**" in line for line in lines) >= 1
    assert any(line.startswith("| RAWLS-GCN |") and "not run" in line for line in lines)
    latex = rendering.latex(block)
    assert latex.count(r"\\") == len(lines) - 1
    assert r"$\pm$" in latex
    assert "%" not in latex.replace(r"\%", "")


@pytest.mark.parametrize("form", ["terminal", "markdown", "latex"])
def test_no_table_travels_without_its_title_and_conditions(recorded, capsys, form):
    app(["bench", "show", "--results", str(recorded), "--format", form], standalone_mode=False)
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("dblp, node-classification, gcn") == 1
    assert said.count("gowalla, recommendation, gcn") == 1
    assert "3 training seeds (paper: 5)" in said
    assert "(paper: at most 1500 + 1500 epochs at 0.001 and 0.001)" in said
    assert "epochs at 0.001, times 0.1 at epoch 1000 and 1500, and 0.0001)" in said
    assert "Ended by the number of epochs, not by patience: Base 3 of 3" in said
    assert "no dropout was tried" in said  # for recommendation
    assert "interval of the paired difference" in said


def test_a_table_of_the_paper_has_its_own_rows_and_columns(recorded):
    shown = paper_table("nodecls_gcn_table")
    (block,) = chosen_blocks(recorded, table=shown.name)
    (whole,) = chosen_blocks(recorded, task="node-classification")
    columns = set(shown.settings["node-classification"])
    assert set(block.settings) == set(whole.settings) & columns < set(whole.settings)
    assert [row.method for row in block.rows] == list(shown.methods)
    with pytest.raises(InputError, match=r"dataset is one of .*; got 'nope'"):
        chosen_blocks(recorded, datasets=["nope"])
    with pytest.raises(InputError, match="preset is one of short, paper; got 'long'"):
        chosen_blocks(recorded, preset="long")


def test_latex_escapes_whatever_a_method_is_called(recorded, monkeypatch):
    (block,) = chosen_blocks(recorded, task="node-classification")
    monkeypatch.setattr(Row, "chosen", r"a_b & 50 % \{#1} ~^")
    body = rendering.latex(block)
    assert r"a\_b \& 50 \% \textbackslash{}\{\#1\} \textasciitilde{}\textasciicircum{}" in body
    assert r"\textbf{" in body


def test_the_page_holds_both_presets(recorded, tmp_path):
    shutil.copytree(recorded / "node-classification", tmp_path / "node-classification-paper")
    (block,) = every_block(tmp_path)
    assert block.name == "dblp, node-classification, gcn, paper preset"
    # Of five usual seeds three were run: the command is that of what was run.
    assert block.command.endswith(" --preset paper --seed 0 --seed 1 --seed 2 --trials 3")
    with pytest.raises(InputError, match="has no records; name another folder with --results"):
        every_block(tmp_path / "nothing")


def test_a_stage_that_rows_share_is_timed_once(recorded):
    records = {r.name: r for r in read_records(recorded / "node-classification")}
    own = {r.name: r.seconds for r in without_shared(list(records.values()))}
    base, tuneup = (records[f"dblp-gcn-{name}-0"].seconds for name in ("base", "tuneup"))
    assert own["dblp-gcn-base-0"] == base
    assert own["dblp-gcn-tuneup-0"] == pytest.approx(tuneup - base, abs=0.02)
    stages = records["dblp-gcn-tuneup-0"].stages
    assert own["dblp-gcn-tuneup-0"] == pytest.approx(stages[1]["seconds"], abs=0.02)
    alone = own["dblp-gcn-dropedge-0"]  # one stage, none of it Base's
    assert alone == records["dblp-gcn-dropedge-0"].seconds
    # An opening that two architectures share is the first one's.
    first = replace(records["dblp-gcn-tuneup-0"], method="localaug")
    found = without_shared([first, replace(first, architecture="sage")])
    shared = first.stages[0]["seconds"]
    assert [run.seconds for run in found] == [first.seconds, pytest.approx(first.seconds - shared)]
    # What came out the same in another time was trained anew.
    again = [{**first.stages[0], "seconds": shared + 1}, *first.stages[1:]]
    found = without_shared([first, replace(first, architecture="sage", stages=again)])
    assert [run.seconds for run in found] == [first.seconds] * 2


def test_the_papers_numbers_stand_beside_ours(recorded):
    (block,) = chosen_blocks(recorded, table="recsys_table")
    text = rendering.markdown(block)
    assert "paper, transductive" in text
    (base,) = [line for line in text.splitlines() if line.startswith("| Base |")]
    assert base.endswith("| 9.01 ± 0.04 |")
    (gain,) = [line for line in text.splitlines() if line.startswith("| TuneUp over Base, % |")]
    assert gain.endswith("| +21.4 |")


def test_figures_come_from_the_records_alone(recorded, tmp_path):
    made = list(figures.write_figures(chosen_blocks(recorded), tmp_path))
    kinds = {path.stem.removeprefix("node-classification-dblp-gcn-") for path in made}
    assert {"degrees", "training", "cold-start"} <= kinds
    assert {path.suffix for path in made} == {".png", ".pdf"}
    for path in made:
        if path.suffix == ".png":
            assert imread(path).std() > 0.01
    assert {f"{task}-by-degree" for task in ("node-classification", "recommendation")} <= kinds
    # There are no new users: nothing cold to draw.
    assert not list(tmp_path.glob("recommendation-*-cold-start*"))


def test_curves_and_cold_starts_are_drawn_as_recorded(recorded):
    (block,) = chosen_blocks(recorded, task="node-classification")
    (axes,) = figures.cold_figure(block).axes
    rows = {row.label: row for row in block.rows if row.records}
    drawn = {line.get_label(): line for line in axes.get_lines()}
    assert set(drawn) == set(rows)
    for label, row in rows.items():
        means = [row.cells[name].score.mean for name in ("inductive", "cold-30", "cold-60")]
        assert list(drawn[label].get_xdata())[:3] == [0, 30, 60]
        assert list(drawn[label].get_ydata())[:3] == means
    assert len(axes.collections) == len(rows)  # a band each: there are three seeds
    assert "± 1 std over training seeds" in axes.get_xlabel()
    first, second = figures.validation_figure(block).axes
    curves = {
        name: [
            [point for point in run.curve if point[3] is not None] for run in block.records[name]
        ]
        for name in ("base", "tuneup")
    }
    for axes, stage, method in ((first, 0, "base"), (second, 1, "tuneup")):
        expected = [[s for k, _, _, s in run if k == stage] for run in curves[method]]
        found = [list(line.get_ydata()) for line in axes.get_lines() if line.get_color() != GREY]
        assert found == expected  # a first stage that is Base's once, as Base's
    levels = [line.get_ydata()[0] for line in second.get_lines() if line.get_color() == GREY]
    assert levels == [max(s for k, _, _, s in run if k == 0) for run in curves["tuneup"]]
    assert all(line.get_color() != GREY for line in first.get_lines())
    assert first.get_xlabel() == "epoch (a line is a training seed)"


def test_figures_of_two_presets_lie_side_by_side(recorded, tmp_path):
    (block,) = chosen_blocks(recorded, task="node-classification")
    other = copy(block)
    other.preset = "paper"
    names = [
        {path.name for path in figures.write_figures([each], tmp_path)} for each in (block, other)
    ]
    assert not names[0] & names[1]
    assert "node-classification-dblp-gcn-paper-degrees.png" in names[1]
    assert "node-classification-by-degree-paper.png" in names[1]


def test_an_overview_has_a_panel_a_dataset_and_architecture(recorded):
    (block,) = chosen_blocks(recorded, task="node-classification")
    assert block.rows
    assert block.scores
    other = copy(block)  # with what was just read
    other.dataset = "CS"
    drawn = figures.degree_overview([block, other])
    titles = [axes.get_title() for axes in drawn.axes if axes.get_title()]
    assert [title.removesuffix(", lines coincide") for title in titles] == ["dblp, gcn", "CS, gcn"]
    runs = {name: list(block.scores[name]["transductive"].values()) for name in ("base", "tuneup")}
    expected = shared_curves(runs, TAIL_DEGREE, 20)
    for line, bins in zip(drawn.axes[0].get_lines(), expected.values(), strict=True):
        assert line.get_ydata().tolist() == [each.mean for each in bins]
    other.preset = "paper"
    other.dataset = block.dataset
    drawn = figures.degree_overview([block, other])
    titles = [axes.get_title() for axes in drawn.axes if axes.get_title()]
    assert [title.split(", gcn")[0] for title in titles] == ["dblp", "dblp (paper preset)"]
    del other.rows
    other.records = {"base": block.records["base"]}  # nothing to compare it with
    assert len(figures.degree_overview([block, other]).axes) == 2
    assert figures.degree_overview([other]) is None


@pytest.mark.parametrize("form", ["terminal", "markdown", "latex", "csv"])
def test_show_prints_every_form(recorded, capsys, form):
    app(["bench", "show", "--results", str(recorded), "--format", form], standalone_mode=False)
    said = capsys.readouterr().out
    expected = {
        "terminal": "TuneUp over Base, %",
        "markdown": "| TuneUp over Base, % |",
        "latex": r"TuneUp over Base, \% &",
        "csv": "dblp,node-classification,gcn,short,tuneup,transductive,accuracy,",
    }
    assert expected[form] in said
    # What the paper has of graphs that were not run stands in every form, by its own number.
    assert ("0.5916" if form == "csv" else "59.16") in said


def test_show_without_records_says_how_to_make_them(recorded, tmp_path):
    with pytest.raises(
        InputError, match=r"no record of that by preset short, it has none at all; name .*--results"
    ):
        app(["bench", "show", "--results", str(tmp_path)], standalone_mode=False)
    words = r"short, it has dblp \(node-classification\), gowalla \(recommendation\); name"
    with pytest.raises(InputError, match=words):
        app(["bench", "show", "--results", str(recorded), "--dataset", "CS"], standalone_mode=False)
    with pytest.raises(InputError, match="--format is terminal, markdown, latex or csv; got 'x'"):
        app(["bench", "show", "--results", str(tmp_path), "--format", "x"], standalone_mode=False)


def test_damaged_data_is_said_before_any_work(tmp_path, monkeypatch):
    file = tmp_path / "data" / "dblp" / "raw" / "dblp.npz"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"PK\x03\x04 and no more")
    monkeypatch.setenv("TUNEUP_DATA", str(tmp_path / "data"))
    with pytest.raises(InputError, match=r"dblp\.npz: not a readable file"):
        app(
            [
                *("bench", "run", "--dataset", "dblp", "--task", "node-classification"),
                *("--results", str(tmp_path / "results"), "--runs", str(tmp_path / "runs")),
            ],
            standalone_mode=False,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_the_results_page_says_what_was_run_and_what_holds(recorded, tmp_path):
    words = tmp_path / "discussion.md"
    words.write_text("Some words.")
    page = tmp_path / "RESULTS.md"
    app(
        [
            *("bench", "results", "--results", str(recorded)),
            *("--discussion", str(words), "--out", str(page), "--figures", str(tmp_path / "drawn")),
        ],
        standalone_mode=False,
    )
    text = page.read_text()
    assert "Some words." in text
    shown = re.findall(r"!\[.*\]\((.*)\)", text)
    assert shown == [
        "drawn/node-classification-by-degree.png",
        "drawn/recommendation-by-degree.png",
    ]
    assert all(imread(tmp_path / name).std() > 0.01 for name in shown)
    blocks = {block.task: block for block in chosen_blocks(recorded)}
    nodes = blocks["node-classification"]
    rows = {row.method: row for row in nodes.rows}
    count = sum(rows["tuneup"].cells[name].over_base.absolute > 0 for name in nodes.settings)
    pairs = {row.method: row for row in blocks["recommendation"].rows}
    more = int(pairs["tuneup"].cells["transductive"].over_base.absolute > 0)
    (line,) = [line for line in text.splitlines() if line.startswith("| TuneUp is above Base |")]
    assert f"| {count} of 5 (" in line
    assert f"| {more} of 1 (" in line
    clearly = sum(rows["tuneup"].cells[name].over_base.low > 0 for name in nodes.settings)
    below = sum(rows["tuneup"].cells[name].over_base.high < 0 for name in nodes.settings)
    assert f" of 5 ({clearly} clearly, {below} clearly not) |" in line
    assert "| dblp, node-classification, gcn | 3 of" in text
    for missing in (
        "Computers, link-prediction, sage-max | 0 of 2",
        "CS, link-prediction, gcn | 0",
    ):
        assert f"| {missing}" in text  # what was never begun is told of too
    assert "CS, link-prediction, gat" not in text
    assert "RAWLS-GCN" in text.split("## The paper's claims")[0]
    gain = rows["tuneup"].cells["transductive"].over_base.relative
    assert f"| dblp, node-classification, gcn | ours | {100 * gain:+.1f} |" in text
    assert "| gowalla, recommendation, gcn | paper | +21.4 |" in text
    assert "| ogbn-arxiv, node-classification, gcn | paper | +1.0 | +1.4 | +1.5 | +3.2 |" in text
    assert text.count("`tuneup bench run --task") == 2


def test_gains_by_degree_are_what_a_loop_over_the_nodes_finds(recorded):
    for block in every_block(recorded):
        line = degrees_table([block]).splitlines()[2]
        pairs = [block.scores[method]["transductive"] for method in ("base", "tuneup")]
        shown = 0
        for cell, (low, high) in zip(line.split(" | ")[1:], GROUPS, strict=True):
            means, count = [], 0
            for runs in pairs:
                found = defaultdict(list)
                for seed, scores in runs.items():
                    of_nodes = zip(scores.degree.tolist(), scores.score.tolist(), strict=True)
                    for degree, score in of_nodes:
                        if low <= degree <= (degree if high is None else high):
                            found[seed].append(score)
                count = len(found[0])
                means.append(sum(sum(own) / len(own) for own in found.values()) / len(runs))
            if count >= FEWEST:
                old, new = means
                told = f"{100 * old:.1f} → {100 * new:.1f} ({signed(new / old - 1)};"
                assert cell.startswith(told)
                shown += 1
            else:
                assert cell.rstrip(" |") == MISSING
        assert shown


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_drawn(recorded, tmp_path):
    def results(words, out):
        places = ("--out", str(out), "--figures", str(tmp_path / "drawn"))
        asked = ("bench", "results", "--results", str(recorded), "--discussion", str(words))
        app([*asked, *places], standalone_mode=False)

    there = tmp_path / "words.md"
    there.write_text("Some words.")
    with pytest.raises(InputError, match=r"cannot read .*nowhere.md .*name a Markdown file"):
        results(tmp_path / "nowhere.md", tmp_path / "R.md")
    with pytest.raises(InputError, match=r"cannot write .*R.md: .*nowhere is no folder"):
        results(there, tmp_path / "nowhere" / "R.md")
    assert list(tmp_path.iterdir()) == [there]


def test_what_a_recommender_has_of_its_own_is_told():
    from tuneup.bench.conditions import _own_model

    config = {"std": 0.01, "weights_lr": [0.003, 0.1], "orthogonal": True, "unknown": False}
    said = _own_model(config)
    assert "standard deviation of 0.01, weights learn at 0.003 and 0.1 of the rate" in said
    assert said.endswith("weights start orthogonal.")


def test_a_generator_that_patience_did_not_end_is_told_of_too():
    from types import SimpleNamespace

    from tuneup.bench.conditions import cut_short

    stages = [
        {"module": "model", "stopped": "ran all 9 epochs"},  # Base's own, which has a row
        {"module": "generator", "stopped": "ran all 2000 epochs"},
        {"module": "model", "stopped": "no better accuracy for 40 epochs after epoch 100"},
    ]
    row = SimpleNamespace(title="LocalAug", records=[SimpleNamespace(stages=stages)] * 2)
    assert list(cut_short(row)) == ["LocalAug's generator 2 of 2"]
