"""A real cold start: train on one release of a distribution, predict what the next one added.

python -m benchmarks.debian            # three seeds; what has a record is not run again
python -m benchmarks.real_tables       # into benchmarks/README.md

``tuneup fit`` with its defaults on the packages of the release bookworm; then predictions for the
13,996 packages that trixie added, as they arrived and with 30, 60 and 90 % of their edges removed.
Base, stage 2 and the dial are of one training; the simple models are those of ``tuneup fit``.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

import polars as pl
import torch
from torch import Tensor

from tuneup.data import COLD_RATIOS, Graph, cold_start
from tuneup.errors import InputError
from tuneup.evaluation import Setting, node_floors, paired_gain
from tuneup.graph import adjacency_from
from tuneup.metrics import NodeScores, read_scores, write_scores
from tuneup.report.table import markdown_table
from tuneup.runtime import tune_malloc
from tuneup.tables import Shares, TableGraph, TableRequest, read_tables
from tuneup.workflow.fit import Loaded, fit
from tuneup.workflow.options import FitOptions

from .records import ROOT
from .sections import join, unmeasured

FOLDER = ROOT / "benchmarks" / "results" / "debian"
RUNS = ROOT / "runs" / "debian"
SEEDS = range(3)
MODELS = ("base", "stage-2", "dial")
NO_EDGE = "no edge"


def source() -> Path:
    """The folder of the tables."""
    named = os.environ.get("TUNEUP_DATA")
    folder = Path(named or "") / "debian"
    if not named or not (folder / "bookworm-packages.parquet").exists():
        raise InputError(
            "TUNEUP_DATA names no folder with debian/bookworm-packages.parquet; see "
            "benchmarks/README.md for what it must hold."
        )
    return folder


def arrivals(tables: TableGraph, folder: Path) -> tuple[Setting, ...]:
    """The new packages among all others, as they arrived and colder."""
    new, truth = (pl.read_parquet(folder / f"new-{part}.parquet") for part in ("packages", "truth"))
    edges = pl.read_parquet(folder / "new-depends.parquet")
    first, count = len(tables.ids), len(tables.ids) + new.height
    nodes = torch.arange(first, count)
    names = pl.concat([tables.ids.values.cast(pl.String), new["name"]])
    number = pl.DataFrame({"name": names, "node": range(count)})

    def numbers(ids: pl.Series) -> Tensor:
        found = pl.DataFrame({"name": ids}).join(
            number, on="name", how="left", maintain_order="left"
        )
        return torch.from_numpy(found["node"].to_numpy().copy())

    old = tables.graph.adjacency.edge_index
    added = torch.stack([numbers(edges[end]) for end in ("source", "target")])
    adjacency = adjacency_from(torch.cat([old, added], 1), count, undirected=True)
    classes = {name: place for place, name in enumerate(tables.classes)}
    sections = pl.DataFrame({"name": new["name"]}).join(
        truth, on="name", how="left", maintain_order="left"
    )["section"]
    assert tables.graph.y is not None
    labels = torch.tensor([classes.get(section, -1) for section in sections])
    x = tables.graph.x
    assert isinstance(x, Tensor)
    whole = Graph(
        adjacency,
        torch.cat([x, tables.plan.apply(new).to(x)]),
        torch.cat([tables.graph.y, labels]),
        tables.graph.num_classes,
        "debian",
    )
    scored = nodes[labels >= 0]
    settings = [Setting("inductive", whole, scored, scored)]
    for ratio in COLD_RATIOS:
        cold = whole.with_adjacency(cold_start(adjacency, nodes, ratio, 0))
        settings.append(Setting(f"cold-{round(100 * ratio)}", cold, scored, scored))
    return tuple(settings)


def make(seed: int) -> None:
    """Fit, predict and write down the scores of every model."""
    folder = source()
    request = TableRequest(
        (str(folder / "bookworm-depends.parquet"),),
        (str(folder / "bookworm-packages.parquet"),),
        label="section",
        id="name",
    )
    tables = read_tables(request)
    loaded = Loaded.of(tables, Shares(new=0.05), 0)
    assert isinstance(loaded.tables, TableGraph)
    options = FitOptions(seed=seed)
    outcome = fit(loaded.problem(options), options, checkpoints=RUNS / str(seed))
    settings = arrivals(loaded.tables, folder)
    models = {
        "base": outcome.result.copy(0),
        "stage-2": outcome.result.copy(1),
        "dial": outcome.result.best(),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    print(*outcome.verdict, sep="\n")
    found = {name: [s.score(model) for s in settings] for name, model in models.items()}
    if not list(FOLDER.glob("floor-*.parquet")):
        for floor in node_floors(outcome.problem.task, settings):  # type: ignore[arg-type]
            write_scores(FOLDER / f"floor-{floor.name}.parquet", [*floor.scores.values()])
    for name, scores in found.items():
        write_scores(FOLDER / f"{name}-{seed}.parquet", scores)
        print(seed, name, *(f"{s.setting} {100 * s.mean():.1f}" for s in scores), flush=True)


def section() -> str:
    """Base, stage 2, the dial and every simple model, by setting; what was not run says how to."""
    seeds = [seed for seed in SEEDS if (FOLDER / f"dial-{seed}.parquet").exists()]
    if not seeds:
        return unmeasured("benchmarks.debian", "benchmarks.real_tables")
    models = {
        name: [_by_setting(FOLDER / f"{name}-{seed}.parquet") for seed in seeds] for name in MODELS
    }
    floors = {
        path.stem.removeprefix("floor-"): [_by_setting(path)]
        for path in sorted(FOLDER.glob("floor-*.parquet"))
    }
    settings = list(models["dial"][0])
    columns = [*settings, NO_EDGE]
    rows = [
        [name, *(_mean(own, column) for column in columns)]
        for name, own in (*models.items(), *floors.items())
    ]
    gains = []
    for setting in settings:
        base, dial = ([own[setting] for own in models[name]] for name in ("base", "dial"))
        gain = paired_gain(base, dial, flips=None)
        gains.append(f"{100 * gain.absolute:+.1f} ({100 * gain.low:+.1f}, {100 * gain.high:+.1f})")
    said = (
        "`python -m benchmarks.debian`: accuracy in % on the packages that the next release added, "
        f"{len(seeds)} seeds; *{NO_EDGE}*: those that arrived without one. Simple models have no "
        "seed."
    )
    return join(
        said,
        markdown_table(["", *columns], rows),
        markdown_table(["", *settings], [["dial - base", *gains]]),
    )


def _by_setting(path: Path) -> Mapping[str, NodeScores]:
    return {scores.setting: scores for scores in read_scores(path)}


def _mean(runs: Sequence[Mapping[str, NodeScores]], column: str) -> str:
    if column == NO_EDGE:
        scores = [own["inductive"] for own in runs]
        means = [each.select(each.degree == 0).mean() for each in scores]
    else:
        means = [own[column].mean() for own in runs]
    return f"{100 * fmean(means):.1f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """All seeds that have no record yet."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.debian", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--seed", type=int, choices=SEEDS, help="only this one")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    tune_malloc()
    for seed in SEEDS if options.seed is None else (options.seed,):
        if not (FOLDER / f"dial-{seed}.parquet").exists():
            make(seed)
    print(section())


if __name__ == "__main__":
    main()
