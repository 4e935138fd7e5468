"""RAWLS-GCN (Kang et al., WWW 2022): GCN whose operator treats all degrees alike.

GCN's rows and columns sum to more for nodes of high degree, and so do the gradients of its
weights.  The pre-processing variant replaces the operator by the doubly stochastic scaling of
``A + I``, in training and in prediction, computed for every graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from tuneup.curriculum import base
from tuneup.errors import InputError
from tuneup.graph import Scaling
from tuneup.nn import GCNConv

from .base import Method, Recipe, Setup
from .parts import WholeGraph, expect_encoder, with_encoder


@dataclass(frozen=True)
class RawlsGCN:
    """GCN with a doubly stochastic operator, or another ``scaling``."""

    scaling: Scaling = "doubly-stochastic"

    def __post_init__(self) -> None:
        if self.scaling not in get_args(Scaling):
            raise InputError(f"scaling is one of {get_args(Scaling)}; got {self.scaling!r}.")

    def __call__(self, setup: Setup) -> Recipe:
        """Base's curriculum on the rescaled encoder."""
        if self.scaling == "doubly-stochastic" and not setup.task.graph.undirected:
            raise InputError(
                "RAWLS-GCN balances an undirected graph; this one is directed. Build it with "
                "undirected=True, or take another method."
            )
        model = setup.base_model()
        encoder = expect_encoder(model)
        for conv in encoder.convs:
            if not isinstance(conv, GCNConv):
                raise InputError(f"RAWLS-GCN rescales the operator of GCN; {conv} has another.")
            conv.scaling = self.scaling
        return Recipe(with_encoder(model, WholeGraph(encoder)), base(setup.pretrain))


METHODS = (
    Method(
        "rawls-gcn",
        "GCN with a doubly stochastic operator",
        "Kang et al., WWW 2022",
        RawlsGCN(),
        architectures=("gcn",),
        why_not="it rescales GCN's operator, which other architectures do not have",
    ),
)
