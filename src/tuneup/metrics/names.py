"""The metrics that a task can be validated by, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tuneup.errors import InputError
from tuneup.names import TaskName

from .classification import CLASS_METRICS
from .multilabel import MULTI_LABEL_METRICS
from .ranking import RANKING_METRICS

METRICS: Mapping[TaskName, tuple[str, ...]] = {
    "node-classification": tuple({**CLASS_METRICS, **MULTI_LABEL_METRICS}),
    "link-prediction": tuple(RANKING_METRICS),
    "recommendation": tuple(RANKING_METRICS),
}
"""Names by task; those of rankings may have ``@k`` added."""


def check_metric(name: str) -> None:
    """Refuse a name that is a metric of no task."""
    if not any(name.partition("@")[0] in names for names in METRICS.values()):
        allowed = ", ".join(dict.fromkeys(name for names in METRICS.values() for name in names))
        raise InputError(f"metric: got {name!r}; expected one of {allowed}.")
