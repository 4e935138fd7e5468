"""From a user's tables to trained models: the problem, both stages, the scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from tuneup.curriculum import Schedule
from tuneup.data import EdgeSplit, InteractionSplit, NodeSplit
from tuneup.errors import InputError
from tuneup.evaluation import (
    link_settings,
    node_settings,
    recommendation_settings,
)
from tuneup.methods import Setup
from tuneup.methods.curricula import FromCurriculum
from tuneup.metrics import class_metric, metric_for
from tuneup.names import Alpha, Architecture, Selection, TaskName
from tuneup.nn import (
    Classes,
    EncoderSpec,
    HadamardMLP,
    InnerProduct,
    Model,
    UserItemVectors,
)
from tuneup.tables import Shares, TableGraph, TablePairs
from tuneup.tables.costs import graph_cost, pairs_cost
from tuneup.tables.estimate import Estimate, validates_every
from tuneup.tasks import NodeClassification
from tuneup.tasks.link_prediction import LinkPrediction
from tuneup.tasks.recommendation import L2, Recommendation
from tuneup.tasks.selection import check_selection
from tuneup.tasks.unvalidated import AllLabels, AllLinks, AllPairs
from tuneup.train import Checkpoints, Result, train_control
from tuneup.train.result import Callback

from .alpha import EVERY, train_tuneup
from .inputs import LINKS_HIDDEN, NODES_HIDDEN, InputsOf, with_identities
from .outcome import Outcome
from .problems import LearnedInputs, Problem, SlowEncoder
from .search import Axes, Budget, Searched, search


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
        metric: validation score of node classification; one that suits the labels if ``None``.
        class_weights: "balanced" for classes that weigh the same in the loss, or ``None``.
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
    metric: str | None = None
    class_weights: Literal["balanced"] | None = None

    def __post_init__(self) -> None:
        check_selection(self.select)
        if self.metric is not None:
            class_metric(self.metric)  # refuses an unknown one
        if self.class_weights not in (None, "balanced"):
            raise InputError(
                f"--class-weights: got {self.class_weights}; expected balanced, or leave it out."
            )
        if self.alpha is not None:
            FromCurriculum("tuneup", self.alpha)  # refuses a bad one before anything is read
        if self.width < 4 or self.width % 4:
            raise InputError(f"--width is a multiple of 4, 4 or more; got {self.width}.")
        for name in ("epochs", "patience"):
            if getattr(self, name) < 1:
                raise InputError(f"--{name} is 1 or more; got {getattr(self, name)}.")
        if self.architecture not in (None, *get_args(Architecture)):
            names = ", ".join(get_args(Architecture))
            raise InputError(f"--architecture is one of {names} or auto; got {self.architecture}.")
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

    def metric_notes(self, options: FitOptions) -> tuple[str, ...]:
        """Which metric is the validation score and why, where that is not accuracy."""
        if options.metric is not None or not isinstance(self.split, NodeSplit):
            return ()
        assert isinstance(self.tables, TableGraph)
        assert self.tables.graph.y is not None
        metric, why = metric_for(self.tables.graph.y[self.split.train])
        return (
            () if metric == "accuracy" else (f"validation score: {metric}, as {why} (--metric).",)
        )

    def cost(self, options: FitOptions) -> Estimate:
        """Time and memory of a fit."""
        if isinstance(self.tables, TablePairs):
            assert isinstance(self.split, InteractionSplit)
            return pairs_cost(self.tables, self.split, options.width, options.epochs)
        assert not isinstance(self.split, InteractionSplit)
        return graph_cost(self.tables, self.split, options.width, options.epochs)

    def problem(self, options: FitOptions) -> Problem:
        """What a method is given to work on, and what it is judged in."""
        if self.task != "node-classification" and (options.metric or options.class_weights):
            raise InputError(
                f"--metric and --class-weights are for node classification; got {self.task}: leave "
                "them out."
            )
        if isinstance(self.tables, TablePairs):
            return _pairs(self.tables, self.split, options, self.everything)
        if isinstance(self.split, NodeSplit):
            return _nodes(self.tables, self.split, options, self.everything)
        assert isinstance(self.split, EdgeSplit)
        return _links(self.tables, self.split, options, self.everything)


def _nodes(tables: TableGraph, split: NodeSplit, options: FitOptions, everything: bool) -> Problem:
    graph, inputs = tables.graph, InputsOf(tables, options.width, NODES_HIDDEN)
    y = graph.y
    assert y is not None
    first, second = options.schedules(0.01, 0.002)
    kind = AllLabels if everything else NodeClassification
    metric = options.metric or metric_for(y[split.train])[0]
    task = kind.from_split(graph, split, metric=metric, class_weights=options.class_weights)
    setup = Setup(
        replace(task, selection=options.select),
        options.encoder("node-classification", inputs.width, graph.num_classes),
        lambda encoder: Model(inputs.build(), encoder, Classes()),
        pretrain=first,
        finetune=second,
        learns_inputs=inputs.learned,
    )
    classes = tuple(map(str, tables.classes))
    return Problem(graph.name, graph, setup, node_settings(graph, split), classes=classes)


def _links(tables: TableGraph, split: EdgeSplit, options: FitOptions, everything: bool) -> Problem:
    first, second = options.schedules(0.005, 0.002)
    width = options.width
    graph, inputs = tables.graph, InputsOf(tables, width, LINKS_HIDDEN)
    kind = AllLinks if everything else LinkPrediction
    task = kind.from_split(graph, split, L2(output=0.001))
    setup = Setup(
        replace(task, selection=options.select),
        options.encoder("link-prediction", inputs.width, width),
        lambda encoder: Model(inputs.build(), encoder, HadamardMLP(width, width)),
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
        lambda encoder: Model(
            UserItemVectors(
                data.num_users, data.num_items, options.width, std=inputs.std, unknown=True
            ),
            encoder,
            InnerProduct(),
        ),
        pretrain=first,
        finetune=second,
        optimizer=SlowEncoder(0.003),
        finetune_optimizer=SlowEncoder(0.1),
    )
    return Problem(data.name, data, setup, recommendation_settings(task, split))


SEARCHED: Mapping[TaskName, Axes] = {
    "node-classification": {"architecture": ("sage", "gcn", "gat"), "dropout": (0.5, 0.2)},
    "link-prediction": {"architecture": ("sage", "gcn"), "dropout": (0.0, 0.3)},
    "recommendation": {"architecture": ("gcn", "sage")},
}
"""What a search on validation tries, each task's default first."""


def search_settings(
    loaded: Loaded,
    options: FitOptions,
    budget: Budget,
    *,
    checkpoints: Path | None = None,
    callback: Callback | None = None,
) -> tuple[FitOptions, Searched]:
    """The options with the architecture and dropout whose Base validates best."""
    found = search(
        SEARCHED[loaded.task],
        lambda point: loaded.problem(replace(options, **point)),
        budget,
        seed=options.seed,
        checkpoints=checkpoints,
        callback=callback,
    )
    return replace(options, **found.point), found


def fit(
    loaded: Loaded,
    options: FitOptions,
    *,
    base: Result | None = None,
    checkpoints: Path | None = None,
    callback: Callback | None = None,
) -> Outcome:
    """Train both stages, and score every model and the simple ones in every setting.

    A finished run of Base with these options, such as a search's, is taken over if it is given.
    """
    problem = loaded.problem(options)
    trained = train_tuneup(
        problem,
        options.alpha,
        seed=options.seed,
        whole=options.whole,
        final="dial" if options.interpolate else "best",
        base=base,
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
