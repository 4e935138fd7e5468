"""What is drawn: one series per method of a run, or per run and method of a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuneup.report.lines import Line, assign_lines
from tuneup.report.summary import BASE, MethodSummary, RunSummary

_DASHES = {":": "0.1 6", "-": "", "--": "7 4", "-.": "8 4 1 4"}
_PALETTE = ("#1f77b4", "#e8710a", "#009e73", "#cc79a7", "#7b3fa0", "#8c6d1f", "#56b4e9", "#555555")
MOST_RUNS = len(_PALETTE)
"""A comparison of more would need colours that look alike."""


@dataclass(frozen=True, eq=False)
class Series:
    """A method of a run, how it is called in this page and how it is drawn."""

    name: str
    line: Line
    run: RunSummary
    method: MethodSummary

    def looks(self) -> dict[str, str]:
        """For the drawing code."""
        return {"name": self.name, "dash": _DASHES[self.line.style], "marker": self.line.marker}


def of_run(run: RunSummary) -> list[Series]:
    """Every method, as in all other figures."""
    lines = assign_lines([method.name for method in run.methods])
    return [Series(method.name, lines[method.name], run, method) for method in run.methods]


def of_comparison(runs: Sequence[RunSummary], labels: Sequence[str]) -> list[Series]:
    """Of each run the base and the method that it is about: a colour a run, dotted is the base."""
    found = []
    for run, label, color in zip(runs, labels, _PALETTE, strict=False):
        for method in dict.fromkeys((run.base or run.focus, run.focus)):
            is_base = method.name == BASE
            line = Line(color, ":" if is_base else "-", "o" if is_base else "s")
            found.append(Series(f"{label} · {method.name}", line, run, method))
    return found


def colours(series: Sequence[Series]) -> str:
    """The style sheet's colours of the series: lighter on a dark ground, as given on paper."""
    light = "".join(f"--c{i}:{each.line.color};" for i, each in enumerate(series))
    dark = "".join(f"--c{i}:{_lighter(each.line.color)};" for i, each in enumerate(series))
    classes = "".join(f".c{i}{{--c:var(--c{i})}}" for i in range(len(series)))
    return (
        f":root{{{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        f"@media screen{{:root[data-theme=light]{{{light}}}:root[data-theme=dark]{{{dark}}}}}"
        f"{classes}"
    )


def _lighter(color: str, share: float = 0.35) -> str:
    channels = (int(color[start : start + 2], 16) for start in (1, 3, 5))
    return "#" + "".join(f"{round(c + share * (255 - c)):02x}" for c in channels)
