"""Tail-GNN (Liu et al., KDD 2021): what a tail node's neighbourhood lacks is predicted and added.

In each layer, with ``h`` a node's state and ``n`` the mean of its neighbours', as it weighs them::

    gamma_v = LeakyReLU(G1 h_v + G2 n_v) + 1      beta_v = LeakyReLU(B1 h_v + B2 n_v)
    m_v     = h_v + gamma_v * r + beta_v - n_v

``m_v``, the missing information, is added to the aggregation of a tail node (degree at most K) as
one more neighbour.  Every update runs two passes: heads, on the graph and without ``m``, and forged
tails, on a graph in which every head keeps 1 to K of its links, with ``m``::

    loss = (L_heads + L_forged) / 2 - eta BCE(D(z_forged), 0) + mu sum over layers of mean |m_head|

where the discriminator D learns, two steps an update, to tell the heads of the two passes apart.

Where a layer is narrower than its inputs, ``h`` is what it sends, ``W h``: the missing information
and its norm live there.  With GCN, ``n`` is the mean of the neighbours as GCN weighs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor

from tuneup.curriculum import MODEL, ExtraStep, Stage, Update, full
from tuneup.errors import InputError
from tuneup.graph import Adjacency
from tuneup.graph.dropping import forge_tails
from tuneup.nn import MLP
from tuneup.nn.tail import TailEncoder
from tuneup.tasks import GraphView, Moment

from .base import Method, Recipe, Setup
from .parts import PrecomputedEncoder, encoder_of, expect_encoder, inputs_of, with_encoder

DISCRIMINATOR = "discriminator"


@dataclass(frozen=True)
class ForgedTails:
    """Every node with more than ``k`` links keeps 1 to ``k`` of them, drawn for every update."""

    k: int = 5

    def __call__(self, graph: Adjacency, moment: Moment) -> GraphView:
        """The forged graph of this moment."""
        return GraphView(forge_tails(graph, self.k, *moment))


def _heads(update: Update, k: int) -> Tensor:
    return (update.task.graph.degree > k).nonzero().view(-1)


@dataclass(frozen=True)
class Passes:
    """Both passes of an update, run once for the adversary's steps and the model's own."""

    k: int
    mu: float
    _cache: WeakKeyDictionary[GraphView, tuple[Tensor, list[Tensor], Tensor]] = field(
        default_factory=WeakKeyDictionary, repr=False, compare=False
    )
    """by the update's forged view"""

    def look(self, update: Update) -> tuple[Tensor, Tensor]:
        """Outputs of the heads' pass and of the forged one, without a gradient; both are cached."""
        if update.views[1] not in self._cache:
            with torch.enable_grad():  # for `take`
                self._cache[update.views[1]] = self._run(update)
        z, _, forged = self._cache[update.views[1]]
        return z.detach(), forged.detach()

    def take(self, update: Update) -> tuple[Tensor, list[Tensor], Tensor]:
        """Outputs of the heads' pass, what the heads miss, and outputs of the forged pass."""
        cached = self._cache.pop(update.views[1], None)
        return self._run(update) if cached is None else cached

    def _run(self, update: Update) -> tuple[Tensor, list[Tensor], Tensor]:
        model = update.modules[MODEL]
        encoder = encoder_of(model)
        assert isinstance(encoder, TailEncoder)
        whole, forged = (view.graph for view in update.views)
        asked = _heads(update, self.k) if self.mu else None
        x = inputs_of(model, update.task, whole)  # forging leaves no node without a link
        return encoder.both_passes(x, whole, forged, asked)


_FORGED = 1 << 20
"""Added to the stage's number in the forged pass, whose negatives are draws of their own."""


@dataclass(frozen=True)
class TailLoss:
    """The task's loss in both passes, the adversary's and the penalty on missing information."""

    passes: Passes
    eta: float

    def __call__(self, update: Update) -> Tensor:
        """See the module's equation."""
        task, supervision, moment = update.task, update.supervision, update.moment
        heads = _heads(update, self.passes.k)
        if not heads.numel():
            return task.loss(update.trained, update.views[0], supervision, moment)
        z, missing, forged = self.passes.take(update)
        model, apart = update.trained, moment._replace(stage=moment.stage + _FORGED)
        losses = [
            task.loss(with_encoder(model, PrecomputedEncoder(out)), view, supervision, when)
            for out, view, when in zip((z, forged), update.views, (moment, apart), strict=True)
        ]
        loss = (losses[0] + losses[1]) / 2
        if self.eta:
            logits = update.modules[DISCRIMINATOR](forged[heads])
            loss = loss - self.eta * _bce(logits, 0.0)
        if missing:
            norms = [m.norm(dim=1).mean() for m in missing]
            loss = loss + self.passes.mu * torch.stack(norms).sum()
        return loss


@dataclass(frozen=True)
class DiscriminatorLoss:
    """The discriminator's own loss: heads are 1, the same nodes as forged tails 0."""

    passes: Passes

    def __call__(self, update: Update) -> Tensor:
        """Mean of both binary cross-entropies."""
        heads = _heads(update, self.passes.k)
        discriminator = update.trained
        if not heads.numel():  # a step that changes nothing
            return torch.stack([(p * 0.0).sum() for p in discriminator.parameters()]).sum()
        z, forged = self.passes.look(update)
        return (_bce(discriminator(z[heads]), 1.0) + _bce(discriminator(forged[heads]), 0.0)) / 2


def _bce(logits: Tensor, target: float) -> Tensor:
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, target))


@dataclass(frozen=True)
class TailGNN:
    """Head nodes teach what tail nodes miss.

    Args:
        k: nodes of degree up to this are tails; 0: there are none, and this is Base.
        eta: weight of the adversary.
        mu: weight of the missing information's norm on head nodes.
    """

    k: int = 5
    eta: float = 0.1
    mu: float = 0.001

    def __post_init__(self) -> None:
        if self.k < 0 or self.eta < 0 or self.mu < 0:
            raise InputError(
                f"k, eta and mu must not be negative; got {self.k}, {self.eta}, {self.mu}."
            )

    def __call__(self, setup: Setup) -> Recipe:
        """One stage with two views, and the discriminator's steps if it has a weight."""
        spec = setup.encoder
        model = setup.base_model()
        # Learned inputs start near 0: beside them a random translation would be all there is.
        translated = setup.has_features
        encoder = TailEncoder(expect_encoder(model), self.k, translated)
        discriminator = MLP(spec.out_channels, 1, width=spec.out_channels, num_layers=2)
        passes = Passes(self.k, self.mu)
        extra = ExtraStep(DISCRIMINATOR, DiscriminatorLoss(passes), repeats=2, lr=setup.pretrain.lr)
        stage = Stage(
            views=(full, ForgedTails(self.k)) if self.k else (full,),
            schedule=setup.pretrain,
            objective=TailLoss(passes, self.eta) if self.k else Stage.objective,
            extra_steps=(extra,) if self.k and self.eta else (),
        )
        return Recipe(with_encoder(model, encoder), (stage,), {DISCRIMINATOR: discriminator})


METHODS = (
    Method(
        "tail-gnn",
        "missing neighbourhood information, learned from forged tails against a discriminator",
        "Liu et al., KDD 2021",
        TailGNN(),
        architectures=("sage", "sage-sum", "gcn"),
        why_not="the missing neighbour is added to a weighted sum of the others",
        grid={"eta": (0.01, 0.1, 1.0), "mu": (0.001, 0.01)},
    ),
)
