"""The options of a fit; those of ``tuneup fit`` are generated from the fields.

This module imports nothing heavy.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from tuneup.errors import InputError
from tuneup.names import Alpha, Architecture, Selection
from tuneup.tables.request import OptionInfo


def _option(value: Any, help: str, metavar: str | None = None, /, **more: Any) -> Any:
    return field(default=value, metadata={"option": OptionInfo(help, "Training", metavar, **more)})


def _count(value: int, help: str) -> Any:
    return _option(value, help, "COUNT", bounds=(0, 1_000_000))


def _alpha(text: str) -> float | str:
    """A number where it is one; other texts are checked with the other options."""
    try:
        return float(text)
    except ValueError:
        return text


# ruff: noqa: RUF009 - `_option` only makes fields.


@dataclass(frozen=True)
class FitOptions:
    """How a model is trained.

    The help text of each field says what it is; ``None`` stands for the task's own default.
    """

    architecture: Architecture | Literal["auto"] | None = _option(
        None,
        f"Which graph neural network: {', '.join(get_args(Architecture)[:-1])} or "
        f"{get_args(Architecture)[-1]}; auto tries some, and shares of dropout, on validation.",
        "NAME|auto",
        default="sage; for recommendation the better of gcn and sage",
        parse=str,
    )
    width: int = _count(
        128, "Of the hidden states, and of what is learned for nodes without features."
    )
    dropout: float | None = _option(
        None,
        "Of hidden states.",
        "SHARE",
        default="0.5 for node classification, else 0",
        bounds=(0, 1),
    )
    lr: float | None = _option(
        None, "Learning rate of both stages.", "RATE", default="the task's own", bounds=(0, 10)
    )
    epochs: int = _count(2000, "At most so many a stage; patience ends it before.")
    patience: int | None = _option(
        None,
        "Epochs without a better score that end a stage.",
        "COUNT",
        default="60; 300 for recommendation",
        bounds=(0, 1_000_000),
    )
    alpha: Alpha | Literal["auto"] = _option(
        "graded",
        "Share of edges that stage 2 drops; graded: a share of its own for each node; auto tries "
        "0.25, 0.5, 0.75 and graded on validation.",
        "SHARE|graded|auto",
        parse=_alpha,
    )
    whole: bool = _option(
        True, "Train stage 2 on the graph itself too, not on synthetic tails alone."
    )
    select: Selection = _option(
        "balanced",
        "What the model is selected by: validation nodes as they are (transductive), without 30, "
        "60 and 90 % of their edges (cold), or the mean of all four (balanced).",
        "NAME",
        parse=str,
    )
    interpolate: bool = _option(
        True, "Try averages of the weights of Base and stage 2, or these two alone."
    )
    metric: str | None = _option(
        None,
        "Validation score: of classes accuracy, macro-f1, average-precision, balanced-accuracy or "
        "auroc, of links and items recall, ndcg, mrr, hit or precision, as in ndcg@20.",
        "NAME",
        default="accuracy; if classes are imbalanced, average-precision of two and macro-f1 of "
        "more; recall@50",
    )
    class_weights: Literal["balanced"] | None = _option(
        None, "Let all classes weigh the same in the loss.", "balanced", parse=str
    )
    control: bool = _option(False, "Also train Base on for as long as stage 2, to compare.")
    seed: int = _option(0, "Seed of the training.", "SEED", bounds=(0, 2**31 - 1))

    def __post_init__(self) -> None:
        # Imported here: the options of the command line are shown without torch.
        from tuneup.graph import DropEdge
        from tuneup.metrics import check_metric
        from tuneup.tasks import check_selection

        check_selection(self.select)
        if self.metric is not None:
            check_metric(self.metric)
        if self.class_weights not in (None, "balanced"):
            raise InputError(
                f"--class-weights: got {self.class_weights}; expected balanced, or leave it out."
            )
        if isinstance(self.alpha, str) and self.alpha not in ("graded", "auto"):
            raise InputError(f"--alpha is a share from 0 to 1, graded or auto; got {self.alpha}.")
        if self.alpha != "auto":
            DropEdge(self.alpha)  # refuses a bad one before anything is read
        names = ", ".join(get_args(Architecture))
        limits = {
            "width": (self.width >= 4 and self.width % 4 == 0, "a multiple of 4, 4 or more"),
            "epochs": (self.epochs >= 1, "1 or more"),
            "patience": (self.patience is None or self.patience >= 1, "1 or more"),
            "architecture": (
                self.architecture in (None, "auto", *get_args(Architecture)),
                f"one of {names} or auto",
            ),
            "lr": (self.lr is None or self.lr > 0, "above 0"),
            "dropout": (self.dropout is None or 0 <= self.dropout < 1, "a share, 0 to below 1"),
        }
        for name, (fits, words) in limits.items():
            if not fits:
                raise InputError(f"--{name} is {words}; got {getattr(self, name)}.")
