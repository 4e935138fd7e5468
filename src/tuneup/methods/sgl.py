"""SGL-ED (Wu et al., SIGIR 2021): two views of the graph must agree on every user and item.

Beside BPR on the graph itself, the outputs of two synthetic graphs, each without a share of the
edges, are contrasted by InfoNCE, users among users and items among items::

    loss = BPR(G) + weight * mean over sampled v of
           -log( exp(cos(z'_v, z''_v) / t) / sum over sampled w of exp(cos(z'_v, z''_w) / t) )

An update samples as many users and as many items as ``sample`` says; all of them would be a matrix
of users by users.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tuneup.curriculum import Stage, Update, task_loss
from tuneup.errors import InputError
from tuneup.graph import DropEdge
from tuneup.graph.hashing import fold_key, uniform
from tuneup.nn import Model
from tuneup.tasks import Recommendation

from .base import Method, Recipe, Setup

_FIRST, _SECOND = 0x666972, 0x736563
"""Keep the draws of the two graphs apart from each other and from all others."""


@dataclass(frozen=True)
class Agreement:
    """The task's loss and the contrast of two synthetic graphs."""

    alpha: float
    weight: float
    temperature: float
    sample: int

    def __call__(self, update: Update) -> Tensor:
        """The sum."""
        task, model, moment = update.task, update.trained, update.moment
        assert isinstance(task, Recommendation)
        assert isinstance(model, Model)
        one, two = (
            model(
                None,
                DropEdge(self.alpha, fold_key(moment.seed, name)).view(
                    task.graph, moment.step, moment.stage
                ),
            )
            for name in (_FIRST, _SECOND)
        )
        users = torch.arange(task.train.num_users, device=one.device)
        items = torch.arange(task.train.num_users, task.graph.num_nodes, device=one.device)
        key = fold_key(*moment)
        terms = []
        for nodes in (users, items):
            chosen = nodes[uniform(nodes, key).argsort()[: self.sample]]
            terms.append(self.contrast(one[chosen], two[chosen]))
        return task_loss(update) + self.weight * sum(terms[1:], terms[0])

    def contrast(self, one: Tensor, two: Tensor) -> Tensor:
        """InfoNCE of rows that belong together ``[n, d]``."""
        logits = F.normalize(one, dim=1) @ F.normalize(two, dim=1).t() / self.temperature
        return F.cross_entropy(logits, torch.arange(len(logits), device=logits.device))


@dataclass(frozen=True)
class SGL:
    """Base with a contrast of two synthetic graphs.

    Args:
        alpha: share of edges that either graph drops.
        weight: of the contrast.
        temperature: of the contrast.
        sample: users and items contrasted in an update.
    """

    alpha: float = 0.1
    weight: float = 0.1
    temperature: float = 0.2
    sample: int = 2048

    def __post_init__(self) -> None:
        DropEdge(self.alpha)
        for name in ("weight", "temperature", "sample"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name}: got {getattr(self, name)}; expected above 0.")

    def __call__(self, setup: Setup) -> Recipe:
        """One stage."""
        objective = Agreement(self.alpha, self.weight, self.temperature, self.sample)
        stage = Stage(schedule=setup.pretrain, objective=objective)
        return Recipe(setup.base_model(), (stage,))


METHODS = (
    Method(
        "sgl",
        "Base, with two synthetic graphs that must agree on users and items",
        "Wu et al., SIGIR 2021",
        SGL(),
        tasks=("recommendation",),
        why_not="users are contrasted with users, and items with items",
        grid={"alpha": (0.1, 0.3), "weight": (0.1, 0.5)},
        title="SGL",
    ),
)
