"""Studies beside the paper's tables: what each trains, and how one cell of it is made.

=============  ===============================================================================
``labels``     Base and TuneUp on Computers with 10 % of the nodes labelled
``selection``  TuneUp selected on validation nodes that lost edges, beside the paper's protocol
``debian``     trained on one release of a distribution, scored on the packages of the next one
``demo``       the graph of ``tuneup demo`` from five generator seeds
=============  ===============================================================================
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor

from tuneup.data import COLD_RATIOS, Graph, cold_start
from tuneup.errors import InputError
from tuneup.evaluation import Setting, node_floors
from tuneup.graph import adjacency_from
from tuneup.metrics import NodeScores
from tuneup.names import Alpha, TaskName
from tuneup.tables import Shares, TableGraph, TableRequest, read_tables
from tuneup.train import Result
from tuneup.workflow.demo import demo_problem, run_demo
from tuneup.workflow.fit import Loaded, fit
from tuneup.workflow.options import FitOptions

from .presets import SEEDS, TRIALS, USUAL
from .problems import problem_of
from .runner import Job, Made, Suite, curve_of, made_run
from .store import Run, Store
from .tables import find_blocks

Scores = Mapping[str, Sequence[NodeScores]]
DIAL = "tuneup-balanced"
"""TuneUp, selected between Base and stage 2 on nodes as they are and with fewer edges."""
ALPHAS: Sequence[tuple[Alpha, bool]] = (("graded", True), (0.75, False))
"""Shares that stage 2 drops in the study ``selection``, and whether it sees the graph itself."""


@dataclass(frozen=True)
class Study:
    """Runs that are planned one by one; each makes a row for every model of its training.

    Args:
        title: for messages.
        specs: the last row of each training: it is made when this is there.
        train: makes all rows of one.
    """

    title: str
    specs: Sequence[Run]
    train: Callable[[Run, Path], Iterator[Made]]

    def jobs(self, runs: Sequence[Run]) -> list[Job]:
        """All that is not in the store."""
        known = {run.id for run in runs}
        return [Job(spec, True) for spec in self.specs if spec.id not in known]

    def make(self, job: Job, cache: Path) -> Iterator[Made]:
        """Every model of one training."""
        return self.train(job.run, self.folders(cache)[0])

    def ids(self, runs: Sequence[Run]) -> list[str]:
        """The rows of all its trainings."""
        places = {(spec.place, spec.seed) for spec in self.specs}
        return [run.id for run in runs if (run.place, run.seed) in places]

    def folders(self, cache: Path) -> list[Path]:
        """One for all."""
        return [cache / f"study-{self.title.replace(' ', '-').replace(',', '')}"]


def study(name: str, store: Store) -> Sequence[Suite | Study]:
    """The work of a study.

    Args:
        name: one of :data:`STUDIES`.
        store: settings that the paper's tables chose are taken from there.
    """
    if name not in STUDIES:
        raise InputError(f"--study: got {name!r}; expected one of paper, {', '.join(STUDIES)}.")
    return STUDIES[name](store)


def _labels(store: Store) -> Sequence[Suite | Study]:
    task: TaskName = "node-classification"
    methods, seeds = ("base", "tuneup"), range(3)
    return [
        Suite(task, "Computers", gnn, methods, seeds, TRIALS[task], study="labels") for gnn in USUAL
    ]


def _selection(store: Store) -> Sequence[Suite | Study]:
    chosen = find_blocks(store, architectures=USUAL)
    found: list[Suite | Study] = []
    for block in chosen:
        if block.task == "link-prediction" and block.dataset != "dblp":
            continue
        for alpha, whole in ALPHAS:
            specs = [
                replace(
                    base,
                    study="selection",
                    method=DIAL,
                    point={"alpha": alpha, "whole": whole},
                    config={**base.config, "selection": "balanced"},
                    trial=False,
                    means={},
                )
                for base in block.runs.get("base", ())
                if base.seed in list(SEEDS[block.task])[:3]
            ]
            found.append(Study(f"selection {block.name}, alpha {alpha}", specs, _select))
    return found


def _select(spec: Run, cache: Path) -> Iterator[Made]:
    where: Any = (spec.task, spec.dataset, spec.architecture, spec.preset, spec.shared)
    problem = problem_of(*where)
    task: Any = replace(problem.task, selection="balanced")  # type: ignore[type-var]
    plans = (
        replace(plan, validate_every=None)
        for plan in (problem.setup.pretrain, problem.setup.finetune)
    )
    problem = replace(problem, setup=replace(problem.setup, task=task)).scheduled(*plans)
    options = FitOptions(alpha=spec.point["alpha"], whole=spec.point["whole"], seed=spec.seed)
    result = fit(problem, options, checkpoints=cache).result
    models = {"stage-2": result.copy(1), DIAL: result.best()}
    yield from _rows(
        spec, result, {name: [*problem.score(model).values()] for name, model in models.items()}
    )


def _debian(store: Store) -> Sequence[Suite | Study]:
    specs = [
        Run("debian", "node-classification", "debian", "sage", "fit", DIAL, seed, metric="accuracy")
        for seed in range(3)
    ]
    return [Study("debian", specs, _fit_debian)]


def _fit_debian(spec: Run, cache: Path) -> Iterator[Made]:
    """``tuneup fit`` with its defaults, and predictions for what the next release added."""
    named = os.environ.get("TUNEUP_DATA")
    folder = Path(named or "") / "debian"
    if not named or not (folder / "bookworm-packages.parquet").exists():
        raise InputError(
            "the study debian needs the folder debian with bookworm-packages.parquet in the folder "
            "that TUNEUP_DATA names; benchmarks/README.md says what it holds."
        )
    request = TableRequest(
        (str(folder / "bookworm-depends.parquet"),),
        (str(folder / "bookworm-packages.parquet"),),
        label="section",
        id="name",
    )
    loaded = Loaded.of(read_tables(request), Shares(new=0.05), 0)
    assert isinstance(loaded.tables, TableGraph)
    options = FitOptions(seed=spec.seed)
    outcome = fit(loaded.problem(options), options, checkpoints=cache)
    settings = arrivals(loaded.tables, folder)
    result = outcome.result
    models = {"base": result.copy(0), "stage-2": result.copy(1), DIAL: result.best()}
    if spec.seed == 0:
        task: Any = outcome.problem.task
        for floor in node_floors(task, settings):
            scores = [*floor.scores.values()]
            means = {part.setting: part.mean() for part in scores}
            own = replace(spec, architecture="none", method=floor.name, winner=1, means=means)
            yield own, scores, ()
    yield from _rows(
        spec, result, {m: [s.score(model) for s in settings] for m, model in models.items()}
    )


def arrivals(tables: TableGraph, folder: Path) -> tuple[Setting, ...]:
    """The new packages among all others, as they arrived and with fewer edges."""
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

    graph = tables.graph
    added = torch.stack([numbers(edges[end]) for end in ("source", "target")])
    every = torch.cat([graph.adjacency.edge_index, added], 1)
    adjacency = adjacency_from(every, count, undirected=True)
    classes = {name: place for place, name in enumerate(tables.classes)}
    sections = pl.DataFrame({"name": new["name"]}).join(
        truth, on="name", how="left", maintain_order="left"
    )["section"]
    labels = torch.tensor([classes.get(section, -1) for section in sections])
    x, y = graph.x, graph.y
    assert isinstance(x, Tensor)
    assert y is not None
    features = torch.cat([x, tables.plan.apply(new).to(x)])
    whole = Graph(adjacency, features, torch.cat([y, labels]), graph.num_classes, "debian")
    scored = nodes[labels >= 0]
    cold = {f"cold-{round(100 * r)}": cold_start(adjacency, nodes, r, 0) for r in COLD_RATIOS}
    return (
        Setting("inductive", whole, scored, scored),
        *(Setting(name, whole.with_adjacency(a), scored, scored) for name, a in cold.items()),
    )


def _demo(store: Store) -> Sequence[Suite | Study]:
    task: TaskName = "node-classification"
    specs = [
        Run("demo", task, f"demo-{k}", "sage", "demo", "tuneup", 0, point={"alpha": 0.5})
        for k in range(5)
    ]
    return [Study("demo", specs, _train_demo)]


def _train_demo(spec: Run, cache: Path) -> Iterator[Made]:
    seed = int(spec.dataset.removeprefix("demo-"))
    demo = run_demo(demo_problem("node-classification", seed, "sage"))
    result, scores = demo.result, {"base": demo.base, "tuneup": demo.tuneup}
    yield from _rows(spec, result, {name: [*own.values()] for name, own in scores.items()})


def _rows(spec: Run, result: Result, models: Scores) -> Iterator[Made]:
    """A row for each model of one training, the one that is asked for last."""
    for name, scores in sorted(models.items(), key=lambda item: item[0] == spec.method):
        own = replace(spec, method=name, point={} if name == "base" else spec.point)
        run, dial = made_run(own, result, scores), result.record.dial
        if name == DIAL and dial is not None:
            run = replace(run, stages=[*run.stages, {"dial": dial.to_json()}])
        yield run, scores, curve_of(result)


STUDIES: Mapping[str, Callable[[Store], Sequence[Suite | Study]]] = {
    "labels": _labels,
    "selection": _selection,
    "debian": _debian,
    "demo": _demo,
}
"""By name; ``paper`` is every :class:`~tuneup.bench.runner.Suite` of the paper's tables."""
