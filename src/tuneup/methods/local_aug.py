"""LocalAug (Liu et al., ICML 2022): features of possible neighbours, drawn from a generator.

First a generator learns ``p(x_u | x_v)`` from the edges of G.  Then every update draws features
``x~_v`` of one more neighbour for every node, and a network whose first layer is two convolutions
of half the width, one on ``x~`` and one on ``x``, is trained on them.  Node classification takes S
draws at once and wants them to agree::

    loss = mean over draws of CE + weight * mean over draws and nodes of |p - sharpened mean p|^2
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from tuneup.curriculum import Schedule, Stage, Update
from tuneup.errors import InputError
from tuneup.graph import Adjacency, adjacency_from
from tuneup.graph.dropping import edge_draws
from tuneup.graph.features import Factored, Features, Inputs, dense, take_features
from tuneup.graph.hashing import threshold
from tuneup.nn import MLP, EncoderSpec
from tuneup.nn.linear import linear
from tuneup.tasks import Task

from .base import Method, Recipe, Setup
from .parts import PrecomputedEncoder, data_of, encoder_of, with_encoder

GENERATOR = "generator"
_HELD_OUT = 0.05
"""Share of the edges that validate the generator and never train it."""
_KEY = 0x6C6F63616C
"""Keeps the draw of these edges apart from all others ("local" in ASCII)."""
_MOST = 5_000
"""At most so many of them."""
_BATCH = 2048
"""Edges of one update of the generator."""


Drawing = Callable[[torch.Generator | None], Inputs]
"""One draw of a possible neighbour for each node ``[n, d]``."""


class NeighbourGenerator(nn.Module):
    """``p(x_u | x_v)`` for a neighbour u of v, by way of a small normal latent.

    The encoder maps ``[x_u; x_v]`` to the latent's mean and log-variance, the decoder maps
    ``[latent; x_v]`` to ``x_u``.  Features may be sparse; draws that are wider than the hidden
    layers stay :class:`Factored`.

    Args:
        num_features: width of the features.
        latent: width of the latent.
        width: of the hidden layers.
    """

    def __init__(self, num_features: int, latent: int = 10, width: int = 256) -> None:
        super().__init__()
        self.latent = latent
        self.encoder = MLP(2 * num_features, 2 * latent, width=width, num_layers=2)
        self.decoder = MLP(latent + num_features, num_features, width=width, num_layers=2)

    def loss(self, neighbour: Features, own: Features, noise: Tensor) -> Tensor:
        """Squared error plus divergence from the prior, a mean over pairs.

        ``neighbour`` and ``own`` are ``[n, d]``, ``noise`` standard normal ``[n, latent]``.
        """
        mean, log_variance = _two_layers(self.encoder, neighbour, own).chunk(2, 1)
        latent = mean + noise * (log_variance / 2).exp()
        error = self._decoded(latent, self._own_part(own)).squared_distance(neighbour)
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
        loss: Tensor = (error + divergence).mean()
        return loss

    def noise(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Standard normal latents ``[count, latent]``, the same on every device."""
        drawn = torch.randn((count, self.latent), generator=generator)
        return drawn.to(next(self.parameters()))

    def given(self, own: Features) -> Drawing:
        """Draws neighbours of nodes with these features ``[n, d]``; they need no edge."""
        with torch.no_grad():
            part = self._own_part(own)

        def draw(generator: torch.Generator | None = None) -> Inputs:
            with torch.no_grad():
                drawn = self._decoded(self.noise(part.shape[0], generator), part).detach()
                wide = drawn.shape[1] > drawn.left.shape[1]
                return drawn if wide else dense(drawn)

        return draw

    def _own_part(self, own: Features) -> Tensor:
        """What the nodes' own features give to the decoder's hidden layer, whatever the draw."""
        first = self.decoder.layers[0]
        assert isinstance(first, nn.Linear)
        return linear(own, first.weight[:, self.latent :], first.bias)

    def _decoded(self, latent: Tensor, own_part: Tensor) -> Factored:
        first, last = self.decoder.layers
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        hidden = own_part + latent @ first.weight[:, : self.latent].t()
        return Factored(hidden.relu_(), last.weight.t(), last.bias)


def _two_layers(network: MLP, one: Features, other: Features) -> Tensor:
    """Outputs on ``[one; other]``, which are not put side by side."""
    first, last = network.layers
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    left, right = first.weight.split((one.shape[1], other.shape[1]), 1)
    out: Tensor = last((linear(one, left) + linear(other, right, first.bias)).relu_())
    return out


def is_held_out(graph: Adjacency, entries: Tensor) -> Tensor:
    """Which entries of the graph validate the generator, both directions of an edge alike."""
    one, other = (graph.global_ids[side[entries]] for side in (graph.row, graph.col))
    return edge_draws(one, other, _KEY, symmetric=True) < threshold(_HELD_OUT)


def _pairs(task: Task[Any], entries: Tensor) -> tuple[Features, Features]:
    """Features of the senders and of the receivers ``[n, d]`` each."""
    x, graph = data_of(task).x, task.graph
    return take_features(x, graph.col[entries]), take_features(x, graph.row[entries])


def generator_loss(update: Update) -> Tensor:
    """The generator's loss on a batch of edges, drawn for this update."""
    generator, graph = update.trained, update.task.graph
    assert isinstance(generator, NeighbourGenerator)
    drawn = torch.randint(graph.num_entries, (_BATCH,)).to(graph.device)
    neighbour, own = _pairs(update.task, drawn[~is_held_out(graph, drawn)])
    return generator.loss(neighbour, own, generator.noise(own.shape[0]))


def held_out_entries(graph: Adjacency) -> Tensor:
    """The entries that validate the generator; a graph without any is refused."""
    every = torch.arange(graph.num_entries, device=graph.device)
    found = every[is_held_out(graph, every)]
    if not found.numel():
        raise InputError(
            f"LocalAug: none of the {graph.num_edges} edges is held out to validate its generator; "
            "it needs a graph with hundreds of them."
        )
    return found


def held_out_score(modules: Mapping[str, nn.Module], task: Task[Any]) -> float:
    """Minus the generator's loss on edges that it was not trained on, always the same."""
    generator = modules[GENERATOR]
    assert isinstance(generator, NeighbourGenerator)
    held_out = held_out_entries(task.graph)
    fixed = torch.Generator().manual_seed(0)
    chosen = torch.randperm(held_out.numel(), generator=fixed)[:_MOST]
    neighbour, own = _pairs(task, held_out[chosen.to(held_out.device)])
    return -float(generator.loss(neighbour, own, generator.noise(own.shape[0], fixed)))


class AugmentedEncoder(nn.Module):
    """An encoder whose first layer reads drawn features with one half and true ones with the other.

    Args:
        spec: of the encoder that it stands in for.
        generator: makes the draws; ``None``: the true features take their place.
        draws: how many are averaged in evaluation, always the same ones.
    """

    takes_adjacency = True

    def __init__(
        self, spec: EncoderSpec, generator: NeighbourGenerator | None, draws: int = 1
    ) -> None:
        super().__init__()
        if spec.num_layers < 2 or spec.width % 2:
            raise InputError(
                "LocalAug needs two layers or more and an even width; got "
                f"{spec.num_layers} and {spec.width}."
            )
        half = replace(spec, width=spec.width // 2)
        self.drawn, self.true = (half.build().convs[0] for _ in range(2))
        self.rest = spec.build()
        del self.rest.convs[0]
        self.generator = generator
        self.draws = draws

    def forward(self, x: Features, graph: Adjacency | Tensor) -> Tensor:
        """Outputs ``[N, out]``: of one fresh draw in training, of a fixed average otherwise."""
        graph = adjacency_from(graph, x.shape[0])
        if self.training or self.generator is None:
            return self.fresh(x, graph, 1)[0]
        fixed, draw = torch.Generator().manual_seed(0), self.generator.given(x)
        draws = (draw(fixed) for _ in range(self.draws))
        return torch.stack(self.with_draws(x, draws, graph)).mean(0)

    def fresh(self, x: Features, graph: Adjacency, draws: int) -> list[Tensor]:
        """Outputs ``[N, out]`` of fresh draws."""
        if self.generator is None:
            return self.with_draws(x, [x] * draws, graph)
        draw = self.generator.given(x)
        return self.with_draws(x, (draw(None) for _ in range(draws)), graph)

    def with_draws(self, x: Features, draws: Iterable[Inputs], graph: Adjacency) -> list[Tensor]:
        """Outputs ``[N, out]`` for each of given draws."""
        true = self.true(x, graph)
        outputs = []
        for drawn in draws:
            h = torch.cat([self.drawn(drawn, graph), true], 1)
            for k, conv in enumerate(self.rest.convs):
                h = conv(self.rest.between(k, h), graph)
            outputs.append(h)
        return outputs


@dataclass(frozen=True)
class AgreeingDraws:
    """The task's loss over several draws and, for classes, how much the draws disagree."""

    draws: int
    weight: float
    temperature: float

    def __call__(self, update: Update) -> Tensor:
        """See the module's equation."""
        task, (view,) = update.task, update.views
        encoder, x = encoder_of(update.trained), data_of(task).x
        if isinstance(encoder, AugmentedEncoder):
            answers = encoder.fresh(x, view.graph, self.draws)
        else:  # compiled, or in a wrapper: a draw a call
            answers = [encoder(x, view.graph) for _ in range(self.draws)]
        losses = [
            task.loss(
                with_encoder(update.trained, PrecomputedEncoder(out)),
                view,
                update.supervision,
                update.moment,
            )
            for out in answers
        ]
        loss = torch.stack(losses).mean()
        if self.weight and self.draws > 1:
            loss = loss + self.weight * disagreement(torch.stack(answers), self.temperature)
        return loss


def disagreement(logits: Tensor, temperature: float) -> Tensor:
    """Mean squared distance of each draw's probabilities to their sharpened mean, ``[S, N, K]``."""
    p = logits.softmax(2)
    sharp = p.detach().mean(0).pow(1 / temperature)
    sharp = sharp / sharp.sum(1, keepdim=True)
    return (p - sharp).square().sum(2).mean()


def _generator_schedule() -> Schedule:
    return Schedule(epochs=2000, lr=0.001, validate_every=50, patience=300)


@dataclass(frozen=True)
class LocalAug:
    """Features of possible neighbours beside the true ones.

    Args:
        draws: drawn at once in node classification (the authors take 4 with SAGE, 2 with GCN);
            link prediction takes one.
        weight: of the draws' disagreement.
        temperature: that the mean answer is sharpened by.
        generator: schedule of the generator; an update of it is a batch of edges.
    """

    draws: int = 4
    weight: float = 1.0
    temperature: float = 0.5
    generator: Schedule = field(default_factory=_generator_schedule)

    def __post_init__(self) -> None:
        if self.draws < 1 or self.weight < 0 or not self.temperature > 0:
            raise InputError(
                "draws must be 1 or more, weight 0 or more and temperature above 0; got "
                f"{self.draws}, {self.weight}, {self.temperature}."
            )

    def __call__(self, setup: Setup) -> Recipe:
        """The generator, then the network on its draws."""
        held_out_entries(setup.task.graph)  # refuses a graph that is too small
        draws = self.draws if setup.task_name == "node-classification" else 1
        generator = NeighbourGenerator(setup.encoder.in_channels)  # first: from the seed alone
        encoder = AugmentedEncoder(setup.encoder, generator, draws)
        weight = self.weight if draws > 1 else 0.0
        stages = (
            Stage(
                schedule=self.generator,
                module=GENERATOR,
                objective=generator_loss,
                score=held_out_score,
            ),
            Stage(
                schedule=setup.pretrain,
                objective=AgreeingDraws(draws, weight, self.temperature),
            ),
        )
        return Recipe(setup.assemble(encoder), stages, {GENERATOR: generator})


METHODS = (
    Method(
        "localaug",
        "features of possible neighbours, drawn from a generator, beside the true ones",
        "Liu et al., ICML 2022",
        LocalAug(),
        tasks=("node-classification", "link-prediction"),
        needs_features=True,
        why_not="its generator draws features",
        grid={"draws": (2, 4), "weight": (0.5, 1.0)},
        # Links take a single draw, which agrees with itself.
        unread=lambda settings, task: () if task == "node-classification" else ("draws", "weight"),
    ),
)
