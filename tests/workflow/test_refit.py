"""Training again on everything: all labels, edges or pairs, for the epochs that were selected."""

from dataclasses import replace

import polars as pl
import pytest
import torch

from tuneup.data import EdgeSplit, block_graph, demo_interactions
from tuneup.errors import InputError
from tuneup.tables import Shares, TableRequest, read_tables
from tuneup.tasks import AllLabels, AllLinks, AllPairs, NodeClassification
from tuneup.workflow.fit import Loaded, fit, refit
from tuneup.workflow.options import FitOptions

OPTIONS = FitOptions(width=8, epochs=12, patience=12, alpha=0.5, whole=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("tables")
    graph = block_graph(120, 400, 3, 6, seed=1)
    sender, receiver = graph.adjacency.edge_index
    once = sender < receiver
    pl.DataFrame({"source": sender[once].numpy(), "target": receiver[once].numpy()}).write_parquet(
        place / "edges.parquet"
    )
    columns = {f"f{k}": graph.x[:, k].numpy() for k in range(6)}
    label = [None if node % 10 == 0 else f"c{y}" for node, y in enumerate(graph.y.tolist())]
    pl.DataFrame({"id": range(120), **columns, "label": label}).write_parquet(
        place / "nodes.parquet"
    )
    linked = pl.col("id").is_in(torch.cat([sender, receiver]).unique().tolist())
    rows = pl.read_parquet(place / "nodes.parquet").filter(linked)
    rows.select("id", "label").write_parquet(place / "labels.parquet")
    pairs = demo_interactions(0)
    few = pairs.user < 60
    pl.DataFrame({"user": pairs.user[few].numpy(), "item": pairs.item[few].numpy()}).write_csv(
        place / "pairs.csv"
    )
    return place


def loaded_of(folder, kind, new=0.1):
    if kind == "pairs":
        return Loaded.of(
            read_tables(TableRequest((str(folder / "pairs.csv"),), task="recommendation")),
            Shares(),
            0,
        )
    edges, nodes = (str(folder / "edges.parquet"),), (str(folder / "nodes.parquet"),)
    request = {
        "classes": TableRequest(edges, nodes, label="label"),
        "featureless": TableRequest(edges, labels=(str(folder / "labels.parquet"),), label="label"),
        "links": TableRequest(edges, nodes, task="link-prediction"),
    }[kind]
    return Loaded.of(read_tables(request), Shares(0.6, 0.2, new), 0)


def test_everything_trains_and_nothing_validates(folder):
    for kind in ("classes", "links", "pairs"):
        check_everything_trains(loaded_of(folder, kind), kind)


def check_everything_trains(loaded, kind):
    whole = loaded.with_everything()
    task = whole.problem(OPTIONS).task
    if kind == "classes":
        assert isinstance(task, AllLabels)
        y = task.data.y[task.supervision().nodes]
        assert len(y) == 108 == int((loaded.tables.graph.y >= 0).sum())
        assert (y >= 0).all()
        assert len(task.pseudo_labels(whole.problem(OPTIONS).setup.base_model())) <= 12
    elif kind == "links":
        assert isinstance(task, AllLinks)
        assert isinstance(loaded.split, EdgeSplit)
        assert task.supervision().shape[1] == loaded.tables.graph.adjacency.num_edges
    else:
        assert isinstance(task, AllPairs)
        assert task.supervision().col.numel() == len(loaded.tables.interactions)
    assert task.validate(whole.problem(OPTIONS).setup.base_model()) == 0.0


@pytest.mark.parametrize("kind", ["classes", "featureless", "links", "pairs"])
def test_stages_run_for_the_selected_epochs_at_the_selected_weight(folder, kind):
    loaded = loaded_of(folder, kind)
    outcome = fit(loaded.problem(OPTIONS), OPTIONS)
    result = outcome.result
    for chosen in (0.0, 0.3):
        record = result.record
        record.winner = int(chosen > 0)
        if record.dial is not None:
            record.dial = replace(record.dial, chosen=chosen)
        found = refit(loaded, OPTIONS, outcome)
        best = tuple(stage.best_epoch for stage in record.stages)
        assert found.epochs == (best if record.weight else best[:1])
        assert found.weight == record.weight
        names = [name for name, _ in found.model.named_parameters()]
        assert names == [name for name, _ in result.best().named_parameters()]
        assert found.examples == found.to_json()["examples"]


def test_refit_learns_from_held_out_labels(folder):
    loaded = loaded_of(folder, "classes")
    y = loaded.tables.graph.y.clone()
    y[loaded.split.test] = (y[loaded.split.test] + 1) % 3
    other = replace(loaded, tables=replace(loaded.tables, bare=replace(loaded.tables.bare, y=y)))
    runs = [fit(each.problem(OPTIONS), OPTIONS) for each in (loaded, other)]
    again = [
        refit(each, OPTIONS, run).model.state_dict()
        for each, run in zip((loaded, other), runs, strict=True)
    ]
    selected = [run.result.best().state_dict() for run in runs]
    assert all(torch.equal(selected[0][name], selected[1][name]) for name in selected[0])
    assert not all(torch.equal(again[0][name], again[1][name]) for name in again[0])


def test_other_tasks_still_need_validation(folder):
    whole = loaded_of(folder, "classes").with_everything()
    with pytest.raises(InputError, match="validation must be a non-empty"):
        NodeClassification.from_split(whole.tables.graph, whole.split)
