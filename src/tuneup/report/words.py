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


def cold_share(setting: str) -> int | None:
    """30 of ``"cold-30"``; None of another setting."""
    found = re.fullmatch(r"cold-(\d+)", setting)
    return int(found[1]) if found else None


def setting_label(setting: str) -> str:
    """``"cold-30"`` (30 % of the new nodes' edges removed) as ``"cold 30 %"``; others unchanged."""
    return re.sub(r"^cold-(\d+)$", r"cold \1 %", setting)


def setting_words(setting: str, unit: str = "nodes") -> str:
    """``"cold-30"`` as ``"new nodes, 30 % of links removed"``: what was scored."""
    cold = cold_share(setting)
    if cold is not None:
        return f"new {unit}, {cold} % of links removed"
    return {"transductive": f"known {unit}", "inductive": f"new {unit}"}.get(setting, setting)


def metric_words(metric: str) -> str:
    """``"average-precision"`` as ``"average precision"``; others unchanged."""
    return _METRICS.get(metric, metric)
