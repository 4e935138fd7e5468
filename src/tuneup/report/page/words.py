"""Numbers with their units, and what the field's words mean to someone who never heard them."""

from __future__ import annotations

import math
import re

from tuneup.evaluation import MISSING, Gain
from tuneup.report.labels import GROUP_NAMES, GROUPS, interval_digits, setting_words

__all__ = ["GROUPS", "GROUP_NAMES", "setting_words"]

TASKS = {
    "node-classification": "tell the category of each node",
    "link-prediction": "tell which nodes are going to be linked, by ranking all of them",
    "recommendation": "tell which items a user is going to choose, by ranking all of them",
}

ARCHITECTURES = {
    "sage": "GraphSAGE, which averages what a node's neighbours say",
    "sage-max": "GraphSAGE, which takes the strongest of what a node's neighbours say",
    "sage-sum": "GraphSAGE, which adds up what a node's neighbours say",
    "gcn": "GCN, which averages neighbours and trusts those with few links more",
    "gat": "GAT, which learns which neighbours to listen to",
    "lightgcn": "LightGCN, which only averages neighbours",
}


def percent(value: float, digits: int = 1) -> str:
    """``0.7802`` as ``78.0 %``."""
    return MISSING if math.isnan(value) else f"{100 * value:.{digits}f} %"


def points(value: float) -> str:
    """``0.0737`` as ``+7.4 points``; what is small has a digit more."""
    return MISSING if math.isnan(value) else f"{signed(100 * value, _digits(value))} points"


def signed(value: float, digits: int) -> str:
    """With a sign, a true minus, and none for what rounds to nothing."""
    written = f"{value:+.{digits}f}".replace("-", "\N{MINUS SIGN}")
    return written[1:] if not float(f"{value:.{digits}f}") else written


def interval(gain: Gain, digits: int | None = None) -> str:
    """``+6.8 to +7.9``, in points."""
    digits = _digits(gain.absolute) if digits is None else digits
    digits = interval_digits(100 * gain.low, 100 * gain.high, digits)
    return f"{signed(100 * gain.low, digits)} to {signed(100 * gain.high, digits)}"


def _digits(value: float) -> int:
    """One, or two below a point, where an end of an interval may round to nothing."""
    return 1 if abs(value) >= 0.01 else 2


def task_words(task: str) -> str:
    """What is learned."""
    return TASKS.get(task, task)


def tab_words(setting: str, unit: str) -> str:
    """Shorter, for a row of buttons."""
    return setting_words(setting, unit).removeprefix(f"new {unit}, ")


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


def metric_meaning(metric: str, task: str) -> str:
    """What a score counts."""
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


def seconds_words(seconds: float) -> str:
    """``52 s``, ``14 min`` or ``3.2 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def listed(names: list[str]) -> str:
    """``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
