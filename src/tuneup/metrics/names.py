"""The metrics that a task can be validated by, by name."""

from __future__ import annotations

from collections.abc import Mapping

from tuneup.errors import InputError
from tuneup.names import TaskName

from .classification import CLASS_METRICS
from .multilabel import MULTI_LABEL_METRICS
from .ranking import METRICS as RANKING_METRICS

DEFAULT_K = 50
"""Places of a ranking that a metric without ``@k`` looks at."""

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


def ranking_metric(name: str) -> str:
    """The full name of a ranking metric: ``"mrr"`` is ``"mrr@50"``, ``"ndcg@20"`` itself.

    Raises:
        InputError: if there is no such metric.
    """
    kind, at, k = name.partition("@")
    if kind not in RANKING_METRICS or (at and (not k.isdecimal() or int(k) < 1)):
        allowed = ", ".join(RANKING_METRICS)
        raise InputError(
            f"metric: got {name!r}; expected one of {allowed}, perhaps with @k, as in recall@20."
        )
    return f"{kind}@{int(k) if at else DEFAULT_K}"
