"""How numbers, settings, groups and metrics are written for people."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tuneup.evaluation import MISSING, Gain

GROUPS = {"overall": "all", "tail": "few links", "head": "many links"}
GROUP_NAMES = {**GROUPS, "isolated": "no links"}

_METRICS = {
    "macro-f1": "macro-F1",
    "average-precision": "average precision",
    "balanced-accuracy": "balanced accuracy",
    "auroc": "AUROC",
    "log-loss": "log loss",
    "calibration-error": "calibration error",
}
_TASKS = {
    "node-classification": "tell the category of each node",
    "link-prediction": "tell which nodes are going to be linked, by ranking all of them",
    "recommendation": "tell which items a user is going to choose, by ranking all of them",
}
_ARCHITECTURES = {
    "sage": "GraphSAGE, which averages what a node's neighbours say",
    "sage-max": "GraphSAGE, which takes the strongest of what a node's neighbours say",
    "sage-sum": "GraphSAGE, which adds up what a node's neighbours say",
    "gcn": "GCN, which averages neighbours and trusts those with few links more",
    "gat": "GAT, which learns which neighbours to listen to",
    "lightgcn": "LightGCN, which only averages neighbours",
}
_MOST_DIGITS = 6


def percent(value: float | None, digits: int = 1) -> str:
    """``0.7802`` as ``78.0 %``."""
    missing = value is None or math.isnan(value)
    return MISSING if missing else f"{100 * value:.{digits}f} %"  # type: ignore[operator]


def points(value: float, digits: int | None = None) -> str:
    """``0.0737`` as ``+7.4 points``; by default a small value has a digit more."""
    digits = _digits(value) if digits is None else digits
    return MISSING if math.isnan(value) else f"{signed(100 * value, digits)} points"


def signed(value: float, digits: int) -> str:
    """A number with its sign (a true minus), or without one if it rounds to zero."""
    written = f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")
    return written[1:] if not float(f"{value:.{digits}f}") else written


def interval(gain: Gain, digits: int | None = None) -> str:
    """``+6.8 to +7.9``, in points."""
    digits = _digits(gain.absolute) if digits is None else digits
    digits = interval_digits(100 * gain.low, 100 * gain.high, digits)
    return f"{signed(100 * gain.low, digits)} to {signed(100 * gain.high, digits)}"


def interval_digits(low: float, high: float, digits: int) -> int:
    """Digits to write the ends of an interval with, at least ``digits``.

    An interval that excludes zero needs so many that neither end is written as zero.
    """
    if low <= 0 <= high:
        return digits
    near = min(abs(low), abs(high))
    while digits < _MOST_DIGITS and not float(f"{near:.{digits}f}"):
        digits += 1
    return digits


def _digits(value: float) -> int:
    """Two below one point, where an end of an interval may round to zero; else one."""
    return 1 if abs(value) >= 0.01 else 2


def seconds_words(seconds: float) -> str:
    """``52 s``, ``14 min`` or ``3.2 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def listed(names: Sequence[object]) -> str:
    """``a, b and c``."""
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def capital(words: str) -> str:
    """With a capital first letter; the others stay as they are."""
    return words[:1].upper() + words[1:]


def setting_label(setting: str) -> str:
    """``"cold-30"`` (30 % of the new nodes' edges removed) as ``"cold 30 %"``; others unchanged."""
    return re.sub(r"^cold-(\d+)$", r"cold \1 %", setting)


def setting_words(setting: str, unit: str = "nodes") -> str:
    """``"cold-30"`` as ``"new nodes, 30 % of links removed"``: what was scored."""
    cold = re.fullmatch(r"cold-(\d+)", setting)
    if cold:
        return f"new {unit}, {cold[1]} % of links removed"
    return {"transductive": f"known {unit}", "inductive": f"new {unit}"}.get(setting, setting)


def setting_meaning(setting: str, unit: str) -> str:
    """The same in a sentence, for the glossary."""
    cold = re.fullmatch(r"cold-(\d+)", setting)
    if cold:
        return (
            f"The same new {unit}, but {cold[1]} % of the links that touch them are taken away "
            "before the model answers. Experts say cold start."
        )
    return {
        "transductive": f"The {unit} were there during training, their answers were kept secret. "
        "Experts say transductive.",
        "inductive": f"The {unit} joined after training, with all their links. "
        "Experts say inductive.",
    }.get(setting, "A setting of the person who ran this.")


def metric_words(metric: str) -> str:
    """``"average-precision"`` as ``"average precision"``; others unchanged."""
    return _METRICS.get(metric, metric)


def metric_meaning(metric: str, task: str) -> str:
    """What a score counts, in a sentence."""
    ranked = re.fullmatch(r"(recall|ndcg)@(\d+)", metric)
    sought = {"recommendation": "items that a user really chose"}.get(task, "true links of a node")
    if ranked and ranked[1] == "recall":
        return f"Of the {sought}, the share among the {ranked[2]} that the model ranks highest."
    if ranked:
        return (
            f"How many of the {sought} are among the {ranked[2]} that the model ranks highest, "
            "where a hit counts for more the higher it stands."
        )
    if metric == "accuracy":
        return "The share of nodes whose category the model names correctly."
    return "A score between 0 % and 100 %; more is better."


def task_words(task: str) -> str:
    """What is learned."""
    return _TASKS.get(task, task)


def architecture_words(architecture: str) -> str:
    """What the encoder does with neighbours."""
    return _ARCHITECTURES.get(architecture, architecture)
