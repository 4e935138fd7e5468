"""GraphLessNN (Zhang et al., ICLR 2022): a perceptron that is distilled from the GNN.

An MLP on a node's own features is trained on the Base GNN's pseudo-labels and the true labels::

    loss = mean over labelled and pseudo-labelled v of CE(MLP(x_v), y_v)

or, ``soft``, on the GNN's class probabilities of all non-isolated nodes that do not validate::

    loss = mean over labelled v of CE(MLP(x_v), y_v)
         + mean over those nodes of KL(softmax GNN(x, A)_v, softmax MLP(x_v))

No edge is used in prediction, so a cold node is predicted like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch.nn.functional as F
from torch import Tensor

from tuneup.curriculum import MODEL, Stage, Update, base, task_loss
from tuneup.nn import MLP
from tuneup.tasks import NodeClassification

from .base import Method, Recipe, Setup
from .parts import STUDENT, CachedOutput, perceptron


@dataclass(frozen=True)
class SoftTargets:
    """True labels, and the teacher's probabilities where there are edges."""

    teacher: CachedOutput = field(default_factory=CachedOutput, repr=False, compare=False)

    def __call__(self, update: Update) -> Tensor:
        """Cross-entropy on the labels and the distance of all other probabilities."""
        task = update.task
        assert isinstance(task, NodeClassification)
        model, graph = update.modules[MODEL], task.graph
        target = self.teacher(model, graph, lambda: task.forward(model, graph).log_softmax(1))
        output = task.forward(update.trained, graph).log_softmax(1)
        fit = graph.degree > 0
        if not task.label_validation:  # as with hard labels: they validate, and are not fitted
            fit[task.validation] = False
        nodes = fit.nonzero().view(-1)
        distance = F.kl_div(output[nodes], target[nodes], reduction="batchmean", log_target=True)
        return task_loss(update) + distance


@dataclass(frozen=True)
class GraphLessNN:
    """A perceptron distilled from Base.

    Args:
        soft: learn the GNN's probabilities instead of its most probable class.
        num_layers: of the perceptron.
        dropout: of the perceptron.
    """

    soft: bool = False
    num_layers: int = 3
    dropout: float = 0.0

    def __post_init__(self) -> None:
        MLP(1, 1, width=1, num_layers=self.num_layers, dropout=self.dropout)  # refuses bad numbers

    def __call__(self, setup: Setup) -> Recipe:
        """Base, then the student, which is the result however Base validates."""
        model = setup.base_model()
        student = perceptron(setup.encoder, self.num_layers, self.dropout)
        distil = Stage(
            pseudo_labels=not self.soft,
            schedule=setup.pretrain,  # the student begins from nothing
            module=STUDENT,
            objective=SoftTargets() if self.soft else task_loss,
        )
        stages = (*base(setup.pretrain), distil)
        return Recipe(model, stages, {STUDENT: student})


METHODS = (
    Method(
        "graphlessnn",
        "an MLP on features alone, trained on Base's pseudo-labels",
        "Zhang et al., ICLR 2022",
        GraphLessNN(),
        tasks=("node-classification",),
        needs_features=True,
        why_not="it distils class labels into a perceptron that sees no edge",
        grid={"soft": (False, True), "dropout": (0.0, 0.5)},
    ),
)
