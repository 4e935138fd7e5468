"""A loaded model with its graph in memory, asked and answering by numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from tuneup.errors import InputError
from tuneup.graph import Features
from tuneup.nn import Encoder, NodeVectors, UserItemVectors

from .arrivals import Arrivals, Ints
from .artefact import Artefact
from .field import OldGraph
from .passes import check_encoder, encode_new


@dataclass(frozen=True, eq=False)
class ServedModel:
    """What predictions are computed from.

    Args:
        artefact: the model, its graph and features.
        new_user: what a new user of a recommender enters with.
    """

    artefact: Artefact
    new_user: Tensor | None = None

    @cached_property
    def graph(self) -> OldGraph:
        """The graph that new nodes arrive at."""
        return OldGraph(self.artefact.adjacency)

    def prepare(self) -> ServedModel:
        """Make what grows with the graph and every new node reads now, not at the first one."""
        _ = self.inputs
        return self

    @property
    def first(self) -> int:
        """The first node that can be an answer: items come after users."""
        return self.artefact.blueprint.users

    @cached_property
    def inputs(self) -> Features:
        """What old nodes enter with, once they have an edge ``[N, d]``."""
        model = self.artefact.model
        if isinstance(model.inputs, UserItemVectors):
            return model.inputs.of_linked()
        assert self.artefact.x is not None
        with torch.no_grad():
            found: Features = model.inputs(self.artefact.x, self.artefact.adjacency)
        return found

    @cached_property
    def unknown(self) -> Tensor | None:
        """What a new node enters with ``[d]`` if the model learned inputs in place of features."""
        inputs = self.artefact.model.inputs
        return inputs.unknown.detach() if isinstance(inputs, NodeVectors) else None

    @cached_property
    def outputs(self) -> Tensor:
        """Outputs of all old nodes ``[N, d]``, from one pass that is then kept."""
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # a module that is not ours may draw numbers
            found: Tensor = self.artefact.model(self.artefact.x, self.artefact.adjacency)
        return found

    @cached_property
    def _embedder(self) -> nn.Module:
        """What embeddings come from: of a classifier, the layers before that of its classes."""
        encoder = self.artefact.model.encoder
        classifies = self.artefact.blueprint.task == "node-classification"
        if classifies and isinstance(encoder, Encoder) and encoder.num_layers > 1:
            return encoder.body()
        return encoder

    @cached_property
    def embeddings(self) -> Tensor:
        """Embeddings of all old nodes ``[N, d]``: hidden states of a classifier, else outputs."""
        if self._embedder is self.artefact.model.encoder:
            return self.outputs
        with torch.no_grad():
            found: Tensor = self._embedder(self.inputs, self.artefact.adjacency)
        return found

    def of_old(self, nodes: Ints) -> Tensor:
        """Outputs of some old nodes ``[n, d]``."""
        return self.outputs.index_select(0, torch.from_numpy(nodes).to(self.outputs.device))

    def of_new(self, inputs: Tensor, arrivals: Arrivals) -> Tensor:
        """Outputs of new nodes with these inputs ``[m, d]``."""
        return self._encode(self.artefact.model.encoder, inputs, arrivals)

    def embed(self, inputs: Tensor, arrivals: Arrivals) -> Tensor:
        """Embeddings of new nodes with these inputs ``[m, d]``."""
        return self._encode(self._embedder, inputs, arrivals)

    def _encode(self, encoder: nn.Module, inputs: Tensor, arrivals: Arrivals) -> Tensor:
        encoder = check_encoder(encoder)
        here = inputs.to(self.artefact.adjacency.device)
        return encode_new(encoder, self.inputs, here, self.graph, arrivals)

    def degree(self, nodes: Ints) -> Ints:
        """In-degree of some old nodes ``[n]``."""
        return self.graph.rowptr[nodes + 1] - self.graph.rowptr[nodes]

    def user_inputs(self, degree: Ints) -> Tensor:
        """What new users with so many items enter with ``[m, width]``.

        The mean of the trained users; for one without any item what the model itself has in place
        of all such users, if it learned that.
        """
        model = self.artefact.model.inputs
        if not isinstance(model, UserItemVectors) or self.new_user is None:
            raise InputError("Only a recommender has learned inputs.")
        inputs = self.new_user.expand(degree.size, -1)
        if model.unknown is None:
            return inputs
        alone = torch.from_numpy(degree == 0).to(inputs.device)[:, None]
        return torch.where(alone, model.unknown[0], inputs)
