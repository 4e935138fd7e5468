"""How settings, groups, intervals and what was kept are written for people, in one place."""

from __future__ import annotations

import re

GROUPS = {"overall": "all", "tail": "few links", "head": "many links"}
GROUP_NAMES = {**GROUPS, "isolated": "no links"}

METRICS = {
    "macro-f1": "macro-F1",
    "average-precision": "average precision",
    "balanced-accuracy": "balanced accuracy",
    "auroc": "AUROC",
    "log-loss": "log loss",
    "calibration-error": "calibration error",
}

_MOST_DIGITS = 6


def metric_words(metric: str) -> str:
    """``"average-precision"`` as ``"average precision"``; others unchanged."""
    return METRICS.get(metric, metric)


def setting_label(setting: str) -> str:
    """``"cold-30"`` (30 % of the new nodes' edges removed) as ``"cold 30 %"``; others unchanged."""
    return re.sub(r"^cold-(\d+)$", r"cold \1 %", setting)


def setting_words(setting: str, unit: str = "nodes") -> str:
    """How ``unit`` were scored, as a few words that can stand alone."""
    cold = re.fullmatch(r"cold-(\d+)", setting)
    if cold:
        return f"new {unit}, {cold[1]} % of links removed"
    return {"transductive": f"known {unit}", "inductive": f"new {unit}"}.get(setting, setting)


def interval_digits(low: float, high: float, digits: int) -> int:
    """So many that an end which is not zero is not written as zero where that would mislead.

    An interval that leaves zero out must look as if it did.
    """
    if low <= 0 <= high:
        return digits
    near = min(abs(low), abs(high))
    while digits < _MOST_DIGITS and not float(f"{near:.{digits}f}"):
        digits += 1
    return digits
