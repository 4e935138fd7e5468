"""The base class of tasks: supervision, loss, validation, pseudo-labels.

A model that is to serve nodes with few edges must be selected on such nodes.  Every task can score
its validation nodes on the training graph and on *cold copies* of it, in which a share of the
validation nodes' own edges is removed.  The **selection** says which of them count::

    "transductive"   the training graph                                    (the paper's protocol)
    "cold"           the mean over copies without 30, 60 and 90 % of the edges
    "balanced"       the mean over the training graph and those copies

The removed edges are drawn from a fixed seed and nested: an edge that the 30 % copy lacks is
missing from the others too.  Copies are made of the training graph alone.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from statistics import fmean
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, get_args

import torch
from torch import Tensor, nn

from tuneup.data import COLD_RATIOS
from tuneup.errors import InputError
from tuneup.graph import Adjacency
from tuneup.graph.hashing import fold_key, uniform
from tuneup.names import Selection, TaskName
from tuneup.nn import Classes, Model, Sample
from tuneup.nn.model import unwrapped

from .pseudo_labelling import PseudoLabels

WHOLE = 0.0
"""The ratio of removed edges that stands for the training graph itself."""

RATIOS: Mapping[Selection, tuple[float, ...]] = {
    "transductive": (WHOLE,),
    "cold": COLD_RATIOS,
    "balanced": (WHOLE, *COLD_RATIOS),
}
"""Shares of removed edges that each selection averages over."""

EVERY_RATIO = RATIOS["balanced"]
"""All that a task can score its validation nodes at."""

COLD_SEED = 0x636F6C64
"""Seed of the edges that cold copies lack; other draws than those of the test settings."""

INTERVAL: Mapping[TaskName, int] = {
    "node-classification": 8,
    "link-prediction": 48,
    "recommendation": 20,
}
"""Epochs between two validations on cold copies: at most a quarter of the time of training.

Four passes forward over nodes; for links and users a ranking is what costs.
"""


def check_selection(selection: str) -> None:
    """Refuse an unknown selection."""
    if selection not in RATIOS:
        raise InputError(
            f"selection must be one of {', '.join(get_args(Selection))}; got {selection!r}."
        )


class Moment(NamedTuple):
    """When something random happens: every draw is a pure function of its moment.

    ``step`` counts the updates of a stage from 0.
    """

    seed: int
    stage: int
    step: int


class SliceMoment(Moment):
    """The moment of a slice of a batch, whose examples have the draws that the batch gives them.

    It equals the batch's moment; ``first`` of the slice's examples in the batch, and the batch's
    ``total``, are beside it.
    """

    first: int
    total: int

    @classmethod
    def of(cls, moment: Moment, first: int, total: int) -> SliceMoment:
        """The moment of a slice."""
        made = cls(*moment)
        made.first, made.total = first, total
        return made


def numbers(count: int, moment: Moment, copies: int = 1, device: Any = None) -> Tensor:
    """Place in the batch of each of ``count`` examples, and of their copies behind the batch's."""
    if not isinstance(moment, SliceMoment):
        return torch.arange(count * copies, device=device)
    one = torch.arange(moment.first, moment.first + count, device=device)
    return torch.cat([one + copy * moment.total for copy in range(copies)])


@dataclass(frozen=True, eq=False)
class GraphView:
    """The graph that the model sees in place of the training graph.

    ``nodes [n]`` maps the view's nodes to the training graph's, ``None`` if they are the same;
    ``extra`` is supervision that only exists in this view, in the task's own form.  ``sample`` is
    the part of the graph that an update reads, where neighbours are sampled.
    """

    graph: Adjacency
    nodes: Tensor | None = None
    extra: Any = None
    sample: Sample | None = None


S = TypeVar("S")


class Task(ABC, Generic[S]):
    """A training problem on one graph. ``S`` is its form of supervision, Y in the paper."""

    kind: ClassVar[TaskName]
    """which of the three tasks it is"""
    graph: Adjacency
    """the training graph G"""
    metric: str
    """name of the validation score; more is better"""
    selection: Selection = "transductive"
    """which copies of the validation nodes the score is averaged over"""
    batch_size: int | None = None
    """supervised things per update; ``None``: all of them"""
    num_neighbors: Sequence[int] | None = None
    """neighbours that a batch reads of a node, for each layer from the outputs back; ``None``: all,
    in a pass over the whole graph"""
    is_validated: ClassVar[bool] = True
    """whether something is held out to select the model by"""

    @abstractmethod
    def supervision(self, pseudo: PseudoLabels | None = None) -> S:
        """Y: the true targets, and pseudo-labels where there are any."""

    @abstractmethod
    def loss(self, model: nn.Module, view: GraphView, supervision: S, moment: Moment) -> Tensor:
        """L(F(view), Y), a scalar.  ``moment`` decides every draw, so views can share them."""

    def validation_scores(
        self, model: nn.Module, ratios: Sequence[float] = (WHOLE,)
    ) -> dict[float, float]:
        """The validation score by share of removed edges; NaN if the model has diverged.

        At ratio r, a share r of the validation nodes' own edges is removed from the training graph
        before the model predicts: 0 is the graph itself.  Draws are fixed and nested.

        Raises:
            InputError: if the task has no cold copies.
        """
        if tuple(ratios) != (WHOLE,):
            raise InputError(
                f"{type(self).__name__} scores validation on the training graph only: use "
                'selection "transductive", or write its validation_scores.'
            )
        if type(self).validate is Task.validate:
            raise TypeError(f"{type(self).__name__} must define validate or validation_scores.")
        return {WHOLE: self.validate(model)}

    def validate(self, model: nn.Module) -> float:
        """The score that models are selected by: the mean over the selection's ratios."""
        return fmean(self.validation_scores(model, RATIOS[self.selection]).values())

    @property
    def validation_interval(self) -> int:
        """Epochs between two validations where a schedule does not say."""
        return 1 if self.selection == "transductive" else INTERVAL[self.kind]

    def outputs(self, model: nn.Module) -> Tensor | None:
        """The model's outputs on the training graph; ``None`` if the task does not say how.

        Statistics of batch norms are computed again by it when weights are averaged.
        """
        return None

    @abstractmethod
    def digest(self) -> str:
        """A fingerprint of everything training reads: a checkpoint refuses another task's."""

    def batches(self, supervision: S, moment: Moment) -> Iterator[S]:
        """The supervision of each update of an epoch: all of it at once, unless overridden.

        ``moment.step`` counts epochs here.
        """
        yield supervision

    def sampled(self, view: GraphView, supervision: S, moment: Moment) -> GraphView:
        """The view with what the loss of a batch reads of it, where neighbours are sampled.

        It is a pure function of its arguments, which another thread may call.
        """
        if self.num_neighbors is None:
            return view
        if view.nodes is not None or view.extra is not None:
            raise InputError(
                "num_neighbors: this view adds nodes or labels to the graph, which a sample of "
                "neighbours cannot follow; leave it out."
            )
        return replace(view, sample=self.draw_sample(view.graph, supervision, moment))

    def draw_sample(self, graph: Adjacency, supervision: S, moment: Moment) -> Sample:
        """What a batch reads of a graph; for tasks with ``num_neighbors``."""
        raise InputError(f"num_neighbors: {type(self).__name__} has no draw_sample; leave it out.")

    def size(self, supervision: S) -> int:
        """Number of supervised things: the weight of a batch in an epoch's mean loss.

        All batches weigh the same unless overridden.
        """
        return 1

    def slice(self, supervision: S, moment: Moment, part: int, parts: int) -> tuple[S, Moment]:
        """One of several slices of a batch, and the moment of its draws.

        The mean of the slices' losses, by their :meth:`weight`, is the loss of the batch.
        """
        raise InputError(
            f"task: {type(self).__name__} is trained in one process, as it does not say how a "
            "batch is cut; write its slice and weight to use several."
        )

    def weight(self, supervision: S) -> float:
        """What the loss of a batch divides by: its size, unless overridden."""
        return float(self.size(supervision))

    def pseudo_labels(self, model: nn.Module) -> PseudoLabels | None:
        """The model's own labels for unlabelled nodes; ``None`` if the task has none."""
        return None


class Unvalidated:
    """Lets validation be empty; every state of a model scores 0.

    Such a task is trained for a number of epochs that is known, with ``final="last"``.
    """

    is_validated: ClassVar[bool] = False

    def validation_scores(
        self, model: nn.Module, ratios: Sequence[float] = (WHOLE,)
    ) -> dict[float, float]:
        """0 at every ratio."""
        return dict.fromkeys(ratios, 0.0)

    def validate(self, model: nn.Module) -> float:
        """0."""
        return 0.0


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards every module has its former mode."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():  # `train()` would also change parts kept in eval mode
            module.training = mode


def expect_model(model: nn.Module, form: str) -> Model:
    """The model of a task that scores pairs; ``form`` shows how to build one."""
    if not isinstance(model, Model) or isinstance(model.head, Classes):
        if unwrapped(model) is not model:
            raise InputError("Compile or wrap the encoder inside the Model, not all of it.")
        raise InputError(
            f"model: got {type(model).__name__}; expected {form}: put your encoder into one."
        )
    return model


_HUGE = 1e15
"""Inner products of larger embeddings leave the range of float32."""


def has_diverged(*tensors: Tensor) -> bool:
    """Whether any number is not finite, or too large for its products to be."""
    return not all(bool(tensor.abs().amax() < _HUGE) for tensor in tensors if tensor.numel())


def digest_tensors(*tensors: Tensor) -> str:
    """Hex digest of the tensors' bytes, shapes and types, in order."""
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(f"{tensor.dtype}{tuple(tensor.shape)}".encode())
        found.update(tensor.detach().cpu().contiguous().numpy().reshape(-1).view("uint8").data)
    return found.hexdigest()[:16]


_BATCHES = 0x62617463686573
"""Keeps these draws apart from those of edges ("batches" in ASCII)."""


_NEIGHBOURS = 0x6E65696768626F
"""Keeps the draws of neighbours apart ("neighbo" in ASCII)."""


def sample_key(moment: Moment) -> int:
    """Of the neighbours of an update."""
    return fold_key(_NEIGHBOURS, *moment)


def in_batches(
    task: Task[Any], batch_size: int | None, num_neighbors: Sequence[int] | None
) -> Task[Any]:
    """The task with updates on batches of its supervision, and on samples of neighbours."""
    wanted = {"batch_size": batch_size, "num_neighbors": num_neighbors}
    changes = {name: value for name, value in wanted.items() if value is not None}
    known = {each.name for each in fields(task)} if is_dataclass(task) else set[str]()
    if not changes.keys() <= known:
        raise InputError(
            f"{', '.join(changes)}: got a {type(task).__name__}, which has no such fields; leave "
            "them out."
        )
    if batch_size is not None:
        check_batch_size(batch_size)
        size = task.size(task.supervision())
        if batch_size > size:
            raise InputError(
                f"batch_size: got {batch_size}; expected 1 to {size}, as many as there are "
                "supervised nodes or pairs."
            )
    return replace(task, **changes) if changes else task  # type: ignore[type-var]


def check_neighbors(num_neighbors: Sequence[int] | None, graph: Adjacency | None = None) -> None:
    """Refuse fan-outs that no sampler takes, and graphs that have no samples."""
    if num_neighbors is not None:
        from tuneup.graph.sampling import check_fanouts

        check_fanouts(num_neighbors)
        if graph is not None:
            graph.refuse_weights("a sample of neighbours")


def check_batch_size(size: int | None) -> None:
    """Refuse a batch size below 1."""
    if size is not None and size < 1:
        raise InputError(f"batch_size must be 1 or more, or None; got {size}.")


def slice_of(count: int, part: int, parts: int) -> tuple[int, int]:
    """Where one of several slices of ``count`` begins and ends; they differ by at most one."""
    return count * part // parts, count * (part + 1) // parts


def batch_indices(
    count: int, size: int, moment: Moment, device: torch.device | str = "cpu"
) -> Iterator[Tensor]:
    """Each of ``0 .. count - 1`` once, ``size`` at a time, in an order of this epoch's own."""
    index = torch.arange(count, device=device)
    order = uniform(index, fold_key(_BATCHES, *moment)).argsort()
    yield from order.split(size)
