"""Base, DropEdge, TuneUp and its ablations: methods that are nothing but a curriculum."""

from __future__ import annotations

from dataclasses import dataclass

from tuneup.curriculum import CURRICULA, tuneup
from tuneup.errors import InputError
from tuneup.graph import DropEdge
from tuneup.names import Alpha

from .base import Method, Recipe, Setup

ALPHAS = (0.25, 0.5, 0.75)
"""The paper's shares of edges to drop."""
_TUNEUP = "Hu et al., AAAI 2024"


@dataclass(frozen=True)
class FromCurriculum:
    """The Base model, trained by one of the six curricula.

    Args:
        curriculum: a key of :data:`tuneup.curriculum.CURRICULA`.
        alpha: share of edges to drop, where any are.
        whole: of "tuneup", whether stage 2 is also trained on the graph itself.
    """

    curriculum: str
    alpha: Alpha = 0.5
    whole: bool = False

    def __post_init__(self) -> None:
        if self.curriculum not in CURRICULA:
            raise InputError(
                f"curriculum is one of {', '.join(CURRICULA)}; got {self.curriculum!r}."
            )
        if self.whole and self.curriculum != "tuneup":
            raise InputError(f"whole is a setting of tuneup; got {self.curriculum!r}.")
        DropEdge(self.alpha)  # refuses a bad alpha here, not at the first update

    def __call__(self, setup: Setup) -> Recipe:
        """The stages, with the setup's schedules."""
        if self.whole:
            stages = tuneup(self.alpha, setup.pretrain, setup.finetune, whole=True)
        else:
            stages = CURRICULA[self.curriculum](self.alpha, setup.pretrain, setup.finetune)
        return Recipe(setup.base_model(), stages)


def _method(name: str, summary: str, reference: str = _TUNEUP, dropping: bool = True) -> Method:
    grid = {"alpha": ALPHAS} if dropping else {}
    return Method(name, summary, reference, FromCurriculum(name), grid=grid, reads_weights=True)


METHODS = (
    _method("base", "conventional training", "", dropping=False),
    _method("dropedge", "a share of the edges dropped at every update", "Rong et al., ICLR 2020"),
    _method("tuneup", "Base, then fine-tuned on synthetic tails with pseudo-labels"),
    _method("without-curriculum", "TuneUp in one stage: the graph and synthetic tails at once"),
    _method("without-syn-tails", "TuneUp without synthetic tails", dropping=False),
    Method(
        "without-pseudo-labels",
        "TuneUp without pseudo-labels",
        _TUNEUP,
        FromCurriculum("without-pseudo-labels"),
        tasks=("node-classification",),
        why_not="edge tasks have no pseudo-labels, so it would be TuneUp itself",
        grid={"alpha": ALPHAS},
        reads_weights=True,
    ),
)
