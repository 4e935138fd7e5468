"""Methods: settings that turn a setup into a recipe, and a record that describes them.

A method is a frozen dataclass whose fields are its settings and whose call makes a
:class:`Recipe`; a :class:`Method` is the record of it in the registry.  Everything else (loop,
checkpoints, selection, evaluation) is shared, so a published baseline is one short file.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Protocol, get_args

import torch
from torch import nn

from tuneup.curriculum import MODEL, Curriculum, OptimizerFactory, Schedule
from tuneup.errors import InputError
from tuneup.names import Architecture, TaskName
from tuneup.nn import Classes, EncoderSpec, Model, NodeFeatures
from tuneup.tasks import Task
from tuneup.train import Callback, Checkpoints, Final, Result, adam, stage_digests, train

TASKS: tuple[TaskName, ...] = get_args(TaskName)
ARCHITECTURES: tuple[Architecture, ...] = get_args(Architecture)


def _classifier(encoder: nn.Module) -> Model:
    return Model(NodeFeatures(), encoder, Classes())


@dataclass(frozen=True, eq=False)
class Setup:
    """What a method is given to work on.

    Args:
        task: supervision, loss and validation.
        encoder: the GNN that Base would train.
        assemble: puts an encoder, that one or a method's own, into the model that the task asks.
        pretrain: schedule of the first stage.
        finetune: schedule of the stages after it.
        optimizer: makes the factory of a model's optimisers.
        finetune_optimizer: the same for stages that go on with a trained module, if it differs.
        learns_inputs: whether nodes have no features, and the model learns what they enter with.
    """

    task: Task[Any]
    encoder: EncoderSpec
    assemble: Callable[[nn.Module], Model] = _classifier
    pretrain: Schedule = field(default_factory=Schedule)
    finetune: Schedule = field(default_factory=Schedule)
    optimizer: Callable[[nn.Module], OptimizerFactory] = lambda model: adam
    finetune_optimizer: Callable[[nn.Module], OptimizerFactory] | None = None
    learns_inputs: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.encoder, EncoderSpec):
            raise InputError(
                "A method builds its own encoder: give Setup an EncoderSpec(in_channels, "
                f"out_channels, architecture), not a {type(self.encoder).__name__}."
            )
        self.task_name  # noqa: B018  refuses what is no task

    @property
    def task_name(self) -> TaskName:
        """Which of the three tasks it is."""
        kind: TaskName | None = getattr(self.task, "kind", None)
        if kind not in TASKS:
            raise InputError(
                f"Methods know {', '.join(TASKS)}; got a {type(self.task).__name__}. "
                "tuneup.tasks.task_of makes one of a PyG Data with masks."
            )
        return kind

    @property
    def has_features(self) -> bool:
        """Whether nodes are described by more than their edges."""
        return self.task_name != "recommendation" and not self.learns_inputs

    def base_model(self) -> Model:
        """The model of Base, from torch's current seed."""
        return self.assemble(self.encoder.build())

    def with_optimizers(self, model: nn.Module, stages: Curriculum) -> Curriculum:
        """Their own optimiser for stages that go on with a module, where they name none."""
        if self.finetune_optimizer is None:
            return stages
        later = self.finetune_optimizer(model)
        return tuple(
            replace(stage, optimizer=later)
            if stage.optimizer is None and stage.module in {s.module for s in stages[:k]}
            else stage
            for k, stage in enumerate(stages)
        )


@dataclass(frozen=True, eq=False)
class Recipe:
    """A method on one problem, ready to be trained."""

    model: nn.Module
    curriculum: Curriculum
    modules: Mapping[str, nn.Module] = field(default_factory=dict)
    """further modules that stages train"""


class Settings(Protocol):
    """A method with its settings: a frozen dataclass that can be called."""

    def __call__(self, setup: Setup) -> Recipe:
        """The recipe, its modules initialised from torch's current seed."""


@dataclass(frozen=True)
class Method:
    """A line of the registry.

    Args:
        name: as commands, records and tables call it.
        summary: one line.
        reference: where it was published.
        settings: the method with its default settings.
        tasks: what it applies to.
        architectures: encoders it can be built on.
        needs_features: whether nodes must have features.
        reads_weights: whether edges may have weights.
        why_not: the reason for the limits above, which a refusal states.
        grid: values to choose from on validation, by name of the setting.
        unread: names of settings that change nothing, given the others and the task.
        title: as a paper would write it, in tables and figures; by default the name.
    """

    name: str
    summary: str
    reference: str
    settings: Settings
    tasks: tuple[TaskName, ...] = TASKS
    architectures: tuple[Architecture, ...] = ARCHITECTURES
    needs_features: bool = False
    reads_weights: bool = False
    why_not: str = ""
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    unread: Callable[[Any, TaskName], Sequence[str]] | None = None
    title: str = ""

    def __post_init__(self) -> None:
        kind = type(self.settings)
        if not is_dataclass(self.settings) or not kind.__dataclass_params__.frozen:
            raise InputError(f"{self.name}: settings must be an instance of a frozen dataclass.")
        strange = set(self.grid) - {entry.name for entry in fields(self.settings)}
        if strange:
            raise InputError(f"{self.name}: the grid names no such setting: {sorted(strange)}.")

    def refusal(
        self, task: TaskName, architecture: Architecture, has_features: bool = True
    ) -> str | None:
        """Why the method does not apply; ``None`` where it does."""
        if task not in self.tasks:
            problem = f"is for {' and '.join(self.tasks)}, not {task}"
        elif self.needs_features and not has_features:
            problem = "needs node features, and there are none"
        elif architecture not in self.architectures:
            problem = f"works with {', '.join(self.architectures)}, not {architecture}"
        else:
            return None
        return f"{self.name} {problem}{f': {self.why_not}' if self.why_not else ''}."

    def check(self, setup: Setup) -> None:
        """Refuse what does not apply, before any work."""
        refusal = self.refusal(setup.task_name, setup.encoder.architecture, setup.has_features)
        if refusal is not None:
            raise InputError(refusal)
        if not self.reads_weights:
            setup.task.graph.refuse_weights(f"the method {self.name}")
        if setup.encoder.architecture in ("gat", "sage-max"):
            setup.task.graph.refuse_weights(setup.encoder.architecture)

    def points(self, task: TaskName) -> list[dict[str, Any]]:
        """Every point of the grid, its defaults first, without those that would train the same."""
        default = {name: getattr(self.settings, name) for name in self.grid}
        found: dict[Hashable, dict[str, Any]] = {}
        for values in [tuple(default.values()), *product(*self.grid.values())]:
            point = dict(zip(self.grid, values, strict=True))
            found.setdefault(self.decisive(point, task), point)
        return list(found.values())

    def decisive(self, point: Mapping[str, Any], task: TaskName) -> Hashable:
        """What two points have in common that would train the same."""
        unread = self.unread_of(point, task)
        return tuple((name, value) for name, value in point.items() if name not in unread)

    def unread_of(self, point: Mapping[str, Any], task: TaskName) -> Sequence[str]:
        """Names in a point of the grid that change nothing."""
        return self.unread(configured(self, point), task) if self.unread else ()


def configured(method: Method, chosen: Mapping[str, Any]) -> Settings:
    """The method's defaults with some settings changed."""
    return replace(method.settings, **chosen)  # type: ignore[type-var]


def prepare(settings: Settings, setup: Setup, seed: int = 0) -> Recipe:
    """The recipe of a method, with fresh modules that are a function of the seed."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        recipe = settings(setup)
    return replace(recipe, curriculum=setup.with_optimizers(recipe.model, recipe.curriculum))


def run(
    method: Method,
    setup: Setup,
    *,
    settings: Settings | None = None,
    seed: int = 0,
    checkpoints: Checkpoints | Path | str | None = None,
    fresh: bool = False,
    callback: Callback | None = None,
    final: Final = "last",
    control: bool = False,
) -> Result:
    """Train a method.

    Example::

        from tuneup.methods import Setup
        from tuneup.nn import EncoderSpec

        spec = EncoderSpec(graph.num_features, graph.num_classes, width=16)
        setup = Setup(task, spec, pretrain=schedule, finetune=schedule)
        result = tuneup.run(tuneup.METHODS["tail-gnn"], setup)

    Args:
        method: from the registry, or of your own.
        setup: what to train it on.
        settings: the method's settings, if not its defaults.
        seed: of the modules and of every draw.
        checkpoints: where stages are looked up and stored: see :func:`tuneup.train.train`. Methods
            with one folder share the stages that they have in common, such as Base.
        fresh: train all stages again, and replace what is stored of them.
        callback: called after every epoch.
        final: which state is the result: see :func:`tuneup.train.train`.
        control: whether to train Base on for as long as stage 2 as well: likewise.
    """
    if not isinstance(method, Method):
        raise InputError(
            f"run takes a record of the registry, like METHODS['tuneup']; got {method!r}."
        )
    recipe = _recipe(method, setup, settings, seed)
    return train(
        recipe.model,
        setup.task,
        recipe.curriculum,
        seed=seed,
        modules=recipe.modules,
        checkpoints=checkpoints,
        fresh=fresh,
        callback=callback,
        optimizer=setup.optimizer(recipe.model),
        final=final,
        control=control,
    )


def digests(
    method: Method, setup: Setup, *, settings: Settings | None = None, seed: int = 0
) -> tuple[str, ...]:
    """Digest of each stage of a run: runs with equal ones share what is stored of them."""
    recipe = _recipe(method, setup, settings, seed)
    return stage_digests(
        {MODEL: recipe.model, **recipe.modules},
        setup.task,
        recipe.curriculum,
        seed,
        setup.optimizer(recipe.model),
    )


def _recipe(method: Method, setup: Setup, settings: Settings | None, seed: int) -> Recipe:
    method.check(setup)
    settings = settings or method.settings
    if not isinstance(settings, type(method.settings)):
        raise InputError(f"{settings!r} are not the settings of {method.name}.")
    return prepare(settings, setup, seed)
