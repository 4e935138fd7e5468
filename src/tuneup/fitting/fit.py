"""From a user's tables to a saved model: the problem, both stages, the scores, the folder."""

from __future__ import annotations

import json
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tuneup.curriculum import Schedule
from tuneup.data import EdgeSplit, InteractionSplit, NodeSplit
from tuneup.errors import InputError
from tuneup.evaluation import (
    head_tail,
    link_settings,
    node_settings,
    recommendation_settings,
)
from tuneup.inference import save_artefact
from tuneup.methods import Setup
from tuneup.methods.curricula import FromCurriculum
from tuneup.metrics import NodeScores
from tuneup.names import Alpha, Architecture, Selection, TaskName
from tuneup.nn import EncoderSpec, HadamardMLP, LinkModel, Recommender
from tuneup.report.page import write_page
from tuneup.tables import Shares, TableGraph, TablePairs
from tuneup.tables.costs import graph_cost, pairs_cost
from tuneup.tables.estimate import Estimate, validates_every
from tuneup.tasks import NodeClassification
from tuneup.tasks.link_prediction import LinkPrediction
from tuneup.tasks.recommendation import L2, Recommendation
from tuneup.tasks.selection import check_selection
from tuneup.tasks.unvalidated import AllLabels, AllLinks, AllPairs
from tuneup.training import Checkpoints, train_control
from tuneup.training.logs import LOG_FILE
from tuneup.training.result import Callback

from .alpha import EVERY, train_tuneup
from .inputs import LINKS_HIDDEN, NODES_HIDDEN, InputsOf, with_identities
from .outcome import Outcome
from .problems import LearnedInputs, Problem, SlowEncoder
from .run_folders import METRICS_FILE, read_run_folder, write_all_scores
from .split_facts import split_facts


@dataclass(frozen=True)
class FitOptions:
    """How a model is trained on somebody's own tables.

    Args:
        architecture: of the encoder; the task's own if ``None``.
        width: of the hidden states, of embeddings, and of the vector that is learned for each node
            where no column of nodes can be a feature.
        dropout: of the hidden states; the task's own if ``None``.
        epochs: at most so many a stage; patience should end it before.
        lr: learning rate of both stages; a task's own if ``None``.
        patience: epochs without a better validation score after which a stage ends.
        alpha: share of edges that stage 2 drops, or "graded", a share of its own for each node;
            chosen on validation if ``None``.
        whole: whether stage 2 is also trained on the graph itself.
        seed: of the training.
        select: what early stopping, alpha and the result are selected by.
        interpolate: whether averages of Base and stage 2 are candidates for the result.
        control: whether Base is also trained on without dropping, for as long as stage 2.
    """

    architecture: Architecture | None = None
    width: int = 128
    dropout: float | None = None
    epochs: int = 2000
    lr: float | None = None
    patience: int = 60
    alpha: Alpha | None = "graded"
    whole: bool = True
    seed: int = 0
    select: Selection = "balanced"
    interpolate: bool = True
    control: bool = False

    def __post_init__(self) -> None:
        check_selection(self.select)
        if self.alpha is not None:
            FromCurriculum("tuneup", self.alpha)  # refuses a bad one before anything is read
        if self.width < 4 or self.width % 4:
            raise InputError(f"--width is a multiple of 4, 4 or more; got {self.width}.")
        for name in ("epochs", "patience"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name} is 1 or more; got {getattr(self, name)}.")
        if self.lr is not None and not self.lr > 0:
            raise InputError(f"--lr is above 0; got {self.lr}.")
        if self.dropout is not None and not 0 <= self.dropout < 1:
            raise InputError(f"--dropout is a share, 0 to below 1; got {self.dropout}.")

    def encoder(
        self, task: TaskName, in_channels: int, out_channels: int, *, orthogonal: bool = False
    ) -> EncoderSpec:
        """The encoder, with the defaults of a task where nothing was asked for."""
        # SAGE's mean forgets how popular an item is.
        usual: Architecture = "gcn" if task == "recommendation" else "sage"
        hidden = 0.5 if task == "node-classification" else 0.0
        return EncoderSpec(
            in_channels,
            out_channels,
            self.architecture or usual,
            width=self.width,
            dropout=hidden if self.dropout is None else self.dropout,
            orthogonal=orthogonal,
        )

    def schedules(self, lr: float, fine: float) -> tuple[Schedule, Schedule]:
        """Of both stages; ``lr`` and ``fine`` where no rate was asked for."""
        # Cold copies are scored as often as the task can afford.
        every = validates_every(self.epochs) if self.select == "transductive" else None
        first, second = (
            Schedule(self.epochs, self.lr or rate, every, self.patience) for rate in (lr, fine)
        )
        return first, second


@dataclass(frozen=True, eq=False)
class Loaded:
    """Tables that were read, with the split that training will respect."""

    tables: TableGraph | TablePairs
    split: NodeSplit | EdgeSplit | InteractionSplit
    everything: bool = False
    """whether all that is known trains, and nothing validates"""

    @classmethod
    def of(
        cls, tables: TableGraph | TablePairs, shares: Shares, seed: int, by_time: bool = False
    ) -> Loaded:
        """With the split of a column, or else a seeded one, or one by time."""
        if isinstance(tables, TablePairs):
            return cls(tables, tables.split(shares, seed, by_time=by_time))
        split: NodeSplit | EdgeSplit = (
            tables.edge_split(shares, seed)
            if tables.bare.y is None
            else tables.node_split(shares, seed)
        )
        tables = tables.with_split(split)
        if not tables.plan.width:
            tables = replace(tables, bare=with_identities(tables.bare, split))
        return cls(tables, split)

    @property
    def task(self) -> TaskName:
        """What is learned."""
        if isinstance(self.split, InteractionSplit):
            return "recommendation"
        return "node-classification" if isinstance(self.split, NodeSplit) else "link-prediction"

    def cost(self, options: FitOptions) -> Estimate:
        """Time and memory of a fit."""
        if isinstance(self.tables, TablePairs):
            assert isinstance(self.split, InteractionSplit)
            return pairs_cost(self.tables, self.split, options.width, options.epochs)
        assert not isinstance(self.split, InteractionSplit)
        return graph_cost(self.tables, self.split, options.width, options.epochs)

    def problem(self, options: FitOptions) -> Problem:
        """What a method is given to work on, and what it is judged in."""
        if isinstance(self.tables, TablePairs):
            return _pairs(self.tables, self.split, options, self.everything)
        if isinstance(self.split, NodeSplit):
            return _nodes(self.tables, self.split, options, self.everything)
        assert isinstance(self.split, EdgeSplit)
        return _links(self.tables, self.split, options, self.everything)


def _nodes(tables: TableGraph, split: NodeSplit, options: FitOptions, everything: bool) -> Problem:
    graph, inputs = tables.graph, InputsOf(tables, options.width, NODES_HIDDEN)
    first, second = options.schedules(0.01, 0.002)
    kind = AllLabels if everything else NodeClassification
    task = kind.from_split(graph, split)
    setup = Setup(
        replace(task, selection=options.select),
        options.encoder("node-classification", inputs.width, graph.num_classes),
        inputs,
        pretrain=first,
        finetune=second,
        learns_inputs=inputs.learned,
    )
    return Problem(graph.name, graph, setup, node_settings(graph, split))


def _links(tables: TableGraph, split: EdgeSplit, options: FitOptions, everything: bool) -> Problem:
    first, second = options.schedules(0.005, 0.002)
    width = options.width
    graph, inputs = tables.graph, InputsOf(tables, width, LINKS_HIDDEN)
    kind = AllLinks if everything else LinkPrediction
    task = kind.from_split(graph, split, L2(output=0.001))
    setup = Setup(
        replace(task, selection=options.select),
        options.encoder("link-prediction", inputs.width, width),
        lambda encoder: LinkModel(inputs(encoder), HadamardMLP(width, width)),
        pretrain=first,
        finetune=second,
        learns_inputs=inputs.learned,
    )
    return Problem(graph.name, graph, setup, link_settings(graph, split))


def _pairs(tables: TablePairs, split: Any, options: FitOptions, everything: bool) -> Problem:
    assert isinstance(split, InteractionSplit)
    data, width = tables.interactions, options.width
    spec = options.encoder("recommendation", width, width, orthogonal=True)
    inputs = LearnedInputs.under(spec.architecture)
    kind = AllPairs if everything else Recommendation
    task = kind(split.train, split.validation, L2(input=inputs.l2))
    first, second = options.schedules(0.01, 0.005)
    task = replace(task, selection=options.select)
    setup = Setup(
        task,
        spec,
        lambda encoder: Recommender(
            data.num_users, data.num_items, encoder, options.width, std=inputs.std, unknown=True
        ),
        pretrain=first,
        finetune=second,
        optimizer=SlowEncoder(0.003),
        finetune_optimizer=SlowEncoder(0.1),
    )
    return Problem(data.name, data, setup, recommendation_settings(task, split))


def fit(
    loaded: Loaded,
    options: FitOptions,
    *,
    checkpoints: Path | None = None,
    callback: Callback | None = None,
) -> Outcome:
    """Train both stages, and score every model and the simple ones in every setting."""
    problem = loaded.problem(options)
    trained = train_tuneup(
        problem,
        options.alpha,
        seed=options.seed,
        whole=options.whole,
        final="dial" if options.interpolate else "best",
        checkpoints=checkpoints,
        callback=callback,
    )
    control = None
    if options.control:
        result = trained.result
        kept = None if checkpoints is None else Checkpoints(checkpoints / "control", EVERY)
        optimizer = problem.setup.optimizer(result.model)
        control = train_control(result, optimizer=optimizer, checkpoints=kept)
    return Outcome.of(problem, trained, control=control, floors=problem.floors)


def save(
    loaded: Loaded,
    options: FitOptions,
    fitted: Outcome,
    folder: Path,
    *,
    command: list[str],
    log: Path | None = None,
    overwrite: bool = False,
) -> Path:
    """The model that validated best, with all edges that are known and its report, as a folder."""
    tables = loaded.tables
    model: Any = fitted.result.best()
    told = fitted.metrics(shlex.join(command))
    del told["alpha"]  # it is no score, and among the options
    metrics = {
        **told,
        "data": {**told["data"], **split_facts(loaded.split)},
        "options": {
            **asdict(options),
            "alpha": fitted.alpha,
            "architecture": fitted.problem.setup.encoder.architecture,
            "dropout": fitted.problem.setup.encoder.dropout,
        },
        **_shown(fitted.tuneup),
    }
    with tempfile.TemporaryDirectory() as scratch:
        extras = _about(fitted, metrics, Path(scratch))
        if log is not None:
            extras.append(Path(shutil.copyfile(log, Path(scratch) / LOG_FILE)))
        if isinstance(tables, TablePairs):
            model.fill_untrained(fitted.problem.task.graph)
            return save_artefact(
                folder,
                model,
                tables.interactions,
                ids=tables.users.values,
                items=tables.items.values,
                metrics=metrics,
                columns=tables.columns,
                extras=extras,
                overwrite=overwrite,
            )
        return save_artefact(
            folder,
            model,
            tables.graph,
            ids=tables.ids.values,
            labels=[name if type(name) is int else str(name) for name in tables.classes],
            metrics=metrics,
            plan=tables.plan,
            columns=tables.columns,
            extras=extras,
            overwrite=overwrite,
        )


def _about(fitted: Outcome, metrics: Mapping[str, Any], scratch: Path) -> list[Path]:
    """The page about the run and the scores behind it, in a folder for the moment."""
    made = write_all_scores(fitted, scratch)
    (scratch / METRICS_FILE).write_text(json.dumps(metrics, allow_nan=False), encoding="utf-8")
    write_page(scratch / "report.html", [read_run_folder(scratch)])
    return [scratch / "report.html", *made]


def _shown(scores: Mapping[str, NodeScores]) -> dict[str, float]:
    """Overall, tail and head of the first setting, for the model card."""
    first = next(iter(scores.values()))
    found = head_tail(first)
    return {name: found[name].mean for name in ("overall", "tail", "head") if found[name].count}
