"""What a request runs: the paper's tables, or a study beside them.

==================  ==========================================================================
``paper``           every method on the graphs of the paper's tables
``labels``          Base and TuneUp on Computers with 10 % of the nodes labelled
``selection``       TuneUp selected on validation nodes that lost edges, beside the paper's protocol
``debian``          trained on one release of a distribution, scored on the packages of the next one
``demo``            the graph of ``tuneup demo`` from five generator seeds
==================  ==========================================================================

A study of methods on graphs is a line of :data:`STUDIES`, and what it has of its own a line of
:data:`~tuneup.bench.presets.RULES`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, get_args

import polars as pl
import torch
from torch import Tensor

from tuneup.data import COLD_RATIOS, Graph, cold_start
from tuneup.errors import InputError
from tuneup.evaluation import Setting, node_floors
from tuneup.graph import adjacency_from
from tuneup.methods import method_named
from tuneup.metrics import NodeScores
from tuneup.names import Alpha, Architecture, TaskName
from tuneup.tables import Shares, TableGraph, TableRequest, read_tables
from tuneup.train import Result
from tuneup.workflow.demo import demo_problem, run_demo
from tuneup.workflow.fit import Loaded, fit
from tuneup.workflow.options import FitOptions

from .presets import (
    DATASETS,
    ITEMS,
    LINKS,
    NODES,
    SMALL,
    USUAL,
    PresetName,
    check_name,
    planned,
    rules_for,
)
from .problems import is_tables, problem_of, tasks_of
from .runner import Made, Study, Suite, Work, floor_runs, made_run
from .store import Run, Store
from .tables import PaperTable, RunBlock, find_blocks, paper_table

DIAL = "tuneup-balanced"
"""TuneUp, selected between Base and stage 2 on nodes as they are and with fewer edges."""
ALPHAS: Sequence[tuple[Alpha, bool]] = (("graded", True), (0.75, False))
"""Shares that stage 2 drops in the study ``selection``, and whether it sees the graph itself."""


@dataclass(frozen=True)
class Request:
    """What is asked for; a field that is left empty stands for all that there is.

    Args:
        table: of the paper, which names tasks, architectures and rows.
        datasets: by name, or folders of tables; to run, those for small machines by default.
        task: of learning.
        architectures: of the encoder.
        methods: rows.
        seeds: of the training.
        preset: of schedules and sizes.
        study: "paper", or another of :data:`STUDIES`.
        trials: trainings to choose a method's settings by.
        tensorboard: folder of logs.
    """

    table: str | None = None
    datasets: Sequence[str] = ()
    task: str | None = None
    architectures: Sequence[str] = ()
    methods: Sequence[str] = ()
    seeds: Sequence[int] = ()
    preset: str = "short"
    study: str = "paper"
    trials: int | None = None
    tensorboard: Path | None = None

    def __post_init__(self) -> None:
        if self.trials is not None and self.trials < 1:
            raise InputError(f"--trials: got {self.trials}; expected 1 or more.")
        if bad := [seed for seed in self.seeds if seed < 0]:
            raise InputError(f"--seed: got {bad[0]}; expected 0 or more.")
        for name in () if self.task is None else (self.task,):
            check_name("--task", name, get_args(TaskName))
        for name in self.architectures:
            check_name("--architecture", name, get_args(Architecture))
        check_name("--preset", self.preset, get_args(PresetName))
        every = list(dict.fromkeys(name for names in DATASETS.values() for name in names))
        for name in self.graphs if self.study == "paper" else ():
            if not is_tables(name):
                check_name("--dataset", name, every, ", or a folder of tables")
        for name in self.methods:
            method_named(name)

    @property
    def shown(self) -> PaperTable | None:
        """The table that is named."""
        return paper_table(self.table) if self.table else None

    @property
    def graphs(self) -> list[str]:
        """Datasets as they are spelt here."""
        every = {name.lower(): name for names in DATASETS.values() for name in names}
        return [every.get(name.lower(), name) for name in self.datasets]

    @property
    def kinds(self) -> list[tuple[TaskName, Architecture]]:
        """Tasks with architectures."""
        tasks: Any = [self.task] if self.task else get_args(TaskName)
        found: Any = list(product(tasks, self.architectures or USUAL))
        if self.shown is not None:
            found = [kind for kind in self.shown.kinds if self.wants(kind[0], kind[1])]
            if not found:
                has = ", ".join(f"{task} with {name}" for task, name in self.shown.kinds)
                raise InputError(f"table {self.table} has {has}; nothing else.")
        return list(found)

    def wants(self, task: str, architecture: str, dataset: str | None = None) -> bool:
        """Whether a cell is requested."""
        return (
            self.task in (None, task)
            and architecture in (self.architectures or [architecture])
            and (dataset is None or dataset in (self.graphs or [dataset]))
        )


def plan(request: Request, store: Store) -> tuple[list[Work], str]:
    """What a request would run, and a note on what it leaves out."""
    if request.study != "paper":
        return _of_study(request, study(request.study, store)), ""
    shown, found, refusals = request.shown, list[Work](), list[str]()
    for task, architecture in request.kinds:
        wanted = [name for name in request.graphs if task in tasks_of(name)]
        rows = request.methods or (shown.methods if shown else planned(task, architecture))
        why_not = {m: method_named(m).refusal(task, architecture, task != ITEMS) for m in rows}
        able = [name for name, reason in why_not.items() if reason is None]
        for dataset in wanted if request.datasets else SMALL[task]:
            refusals += [reason for reason in why_not.values() if reason]
            if able:
                rules = rules_for(task, preset=request.preset)
                seeds = list(dict.fromkeys(request.seeds or rules["seeds"]))
                trials = request.trials or rules["trials"]
                cell = (task, dataset, architecture, able, seeds, trials, request.preset)
                found.append(Suite(*cell, tensorboard=request.tensorboard))
    if not found:
        names = [f"{kind} has {', '.join(DATASETS[kind])}" for kind in dict(request.kinds)]
        nothing = f"nothing to run on {', '.join(request.graphs)}: {'; '.join(names)}."
        raise InputError(refusals[0] if refusals else nothing)
    small = {name for names in SMALL.values() for name in names}
    others = [name for name in (shown.datasets if shown else ()) if name not in small]
    named = " ".join(f"--dataset {name}" for name in others)
    skipped = f"Large graphs of {request.table} are run only by name: {named}."
    return found, skipped if others and not request.datasets else ""


def requested_blocks(request: Request, store: Store) -> list[RunBlock]:
    """The blocks that are asked for."""
    where: Any = {"datasets": request.graphs, "task": request.task, "study": request.study}
    where |= {"architectures": request.architectures, "preset": request.preset}
    found = find_blocks(store, request.shown, **where)
    if not found and request.shown is None:
        there = dict.fromkeys(f"{b.dataset} ({b.task})" for b in find_blocks(store, preset=None))
        has = f"it has {', '.join(there)}" if there else "it has none at all"
        raise InputError(
            f"{store.folder.absolute()} has no results of that with preset {request.preset}; "
            f"{has}. Name another folder with --results, or make them with tuneup bench run."
        )
    return found


def _of_study(request: Request, works: Sequence[Work]) -> list[Work]:
    """Those cells of a study that are asked for."""
    kept: list[Work] = []
    for each in works:
        if isinstance(each, Suite):
            if request.wants(each.task, each.architecture, each.dataset):
                kept.append(replace(each, seeds=list(request.seeds or each.seeds)))
            continue
        specs = [
            spec
            for spec in each.specs
            if request.wants(spec.task, spec.architecture, spec.dataset)
            and spec.seed in (request.seeds or [spec.seed])
        ]
        kept += [replace(each, specs=specs)] if specs else []
    if not kept:
        raise InputError(
            "the study has no such cell: leave out --task, --dataset, --architecture or --seed."
        )
    return kept


@dataclass(frozen=True)
class Rows:
    """A study of methods on graphs, which are chosen and trained as for the paper's tables.

    Args:
        graphs: task and dataset of each.
        methods: rows.
        seeds: of the training.
        architectures: of the encoder.
        preset: of schedules and sizes.
    """

    graphs: Sequence[tuple[TaskName, str]]
    methods: Sequence[str]
    seeds: Sequence[int]
    architectures: Sequence[Architecture] = USUAL
    preset: str = "short"


def study(name: str, store: Store) -> Sequence[Work]:
    """The work of a study; settings that the paper's tables chose are taken from the store."""
    if name not in STUDIES:
        raise InputError(f"--study: got {name!r}; expected one of paper, {', '.join(STUDIES)}.")
    plan = STUDIES[name]
    if not isinstance(plan, Rows):
        return plan(store)
    cells = [(*graph, gnn) for graph, gnn in product(plan.graphs, plan.architectures)]
    return [
        Suite(*cell, plan.methods, plan.seeds, rules_for(cell[0])["trials"], plan.preset, name)
        for cell in cells
    ]


def _selection(store: Store) -> list[Work]:
    found: list[Work] = []
    for block in find_blocks(store, architectures=USUAL):
        if block.task == LINKS and block.dataset != "dblp":
            continue
        for alpha, whole in ALPHAS:
            point = {"alpha": alpha, "whole": whole}
            specs = [
                replace(
                    base,
                    study="selection",
                    method=DIAL,
                    point=point,
                    config={**base.config, "selection": "balanced"},
                    trial=False,
                    means={},
                )
                for base in block.runs.get("base", ())
                if base.seed in rules_for(block.task)["seeds"][:3]
            ]
            found.append(Study(f"selection {block.name}, alpha {alpha}", specs, _select))
    return found


def _select(spec: Run, cache: Path) -> Iterator[Made]:
    where: Any = (spec.task, spec.dataset, spec.architecture, spec.preset, spec.shared)
    problem = problem_of(*where)
    task: Any = replace(problem.task, selection="balanced")  # type: ignore[type-var]
    setup = replace(problem.setup, task=task)
    plans = (replace(plan, validate_every=None) for plan in (setup.pretrain, setup.finetune))
    problem = replace(problem, setup=setup).scheduled(*plans)
    options = FitOptions(alpha=spec.point["alpha"], whole=spec.point["whole"], seed=spec.seed)
    result = fit(problem, options, checkpoints=cache).result
    models = {"stage-2": result.copy(1), DIAL: result.best()}
    scores = {name: [*problem.score(model).values()] for name, model in models.items()}
    yield from _rows(spec, result, scores)


def _debian(store: Store) -> list[Work]:
    place = ("debian", NODES, "debian", "sage", "fit", DIAL)
    specs = [Run(*place, seed, metric="accuracy") for seed in range(3)]
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
    edges, nodes = (str(folder / f"bookworm-{part}.parquet") for part in ("depends", "packages"))
    tables = read_tables(TableRequest((edges,), (nodes,), label="section", id="name"))
    loaded = Loaded.of(tables, Shares(new=0.05), 0)
    assert isinstance(loaded.tables, TableGraph)
    options = FitOptions(seed=spec.seed)
    outcome = fit(loaded.problem(options), options, checkpoints=cache)
    settings, result = arrivals(loaded.tables, folder), outcome.result
    if spec.seed == 0:
        task: Any = outcome.problem.task
        yield from floor_runs(spec, node_floors(task, settings))
    models = {"base": result.copy(0), "stage-2": result.copy(1), DIAL: result.best()}
    scores = {name: [own.score(model) for own in settings] for name, model in models.items()}
    yield from _rows(spec, result, scores)


def arrivals(tables: TableGraph, folder: Path) -> tuple[Setting, ...]:
    """The new packages among all others, as they arrived and with fewer edges."""
    new, truth = (pl.read_parquet(folder / f"new-{part}.parquet") for part in ("packages", "truth"))
    edges = pl.read_parquet(folder / "new-depends.parquet")
    first, count = len(tables.ids), len(tables.ids) + new.height
    names = pl.concat([tables.ids.values.cast(pl.String), new["name"]])
    number = pl.DataFrame({"name": names, "node": range(count)})

    def joined(names: pl.Series, other: pl.DataFrame) -> pl.Series:
        """The other column of a table for each name."""
        left = pl.DataFrame({"name": names})
        return left.join(other, on="name", how="left", maintain_order="left").to_series(1)

    def numbers(ids: pl.Series) -> Tensor:
        return torch.from_numpy(joined(ids, number).to_numpy().copy())

    graph, nodes = tables.graph, torch.arange(first, count)
    added = torch.stack([numbers(edges[end]) for end in ("source", "target")])
    every = torch.cat([graph.adjacency.edge_index, added], 1)
    adjacency = adjacency_from(every, count, undirected=True)
    classes = {name: place for place, name in enumerate(tables.classes)}
    sections = joined(new["name"], truth.select("name", "section"))
    labels = torch.tensor([classes.get(section, -1) for section in sections])
    x, y = graph.x, graph.y
    assert isinstance(x, Tensor)
    assert y is not None
    features = torch.cat([x, tables.plan.apply(new).to(x)])
    whole = Graph(adjacency, features, torch.cat([y, labels]), graph.num_classes, "debian")
    scored = nodes[labels >= 0]
    cold = {f"cold-{round(100 * r)}": cold_start(adjacency, nodes, r, 0) for r in COLD_RATIOS}
    graphs = {"inductive": whole} | {name: whole.with_adjacency(a) for name, a in cold.items()}
    return tuple(Setting(name, graph, scored, scored) for name, graph in graphs.items())


def _demo(store: Store) -> list[Work]:
    names = [f"demo-{seed}" for seed in range(5)]
    point = {"alpha": 0.5}
    specs = [Run("demo", NODES, name, "sage", "demo", "tuneup", 0, point=point) for name in names]
    return [Study("demo", specs, _train_demo)]


def _train_demo(spec: Run, cache: Path) -> Iterator[Made]:
    demo = run_demo(demo_problem(NODES, int(spec.dataset.removeprefix("demo-")), "sage"))
    scores = {"base": [*demo.base.values()], "tuneup": [*demo.tuneup.values()]}
    yield from _rows(spec, demo.result, scores)


def _rows(spec: Run, result: Result, models: Mapping[str, Sequence[NodeScores]]) -> Iterator[Made]:
    """A row for each model of one training, the one that is asked for last."""
    for name in sorted(models, key=lambda name: name == spec.method):
        own = replace(spec, method=name, point={} if name == "base" else spec.point)
        run, scores, curve = made_run(own, result, models[name])
        if name == DIAL and result.record.dial is not None:
            run = replace(run, stages=[*run.stages, {"dial": result.record.dial.to_json()}])
        yield run, scores, curve


STUDIES: Mapping[str, Rows | Callable[[Store], Sequence[Work]]] = {
    "labels": Rows([(NODES, "Computers")], ("base", "tuneup"), range(3)),
    "selection": _selection,
    "debian": _debian,
    "demo": _demo,
}
"""By name; ``paper`` is every :class:`~tuneup.bench.runner.Suite` of the paper's tables."""
