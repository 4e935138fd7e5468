"""The sections after the charts: how settings were chosen, the data, reproduction, words."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from tuneup.report.summary import RunSummary

from .markup import Html, facts, join, table, tag, verbatim
from .sections import section
from .words import listed, metric_meaning, percent, setting_meaning, setting_words


def selection(run: RunSummary) -> Html:
    """What was chosen by validation: settings by trials, and a stage; nothing if neither was."""
    parts: list[Html] = []
    for method in run.methods:
        if method.trials:
            best = max(trial.score for trial in method.trials)
            rows = [
                [
                    ", ".join(f"{key} {value}" for key, value in trial.point.items()),
                    str(trial.seed),
                    join([percent(trial.score, 2), " (best)" if trial.score == best else ""]),
                    tag("span", "chosen", cls="badge") if trial.chosen else "",
                ]
                for trial in method.trials
            ]
            head = ["settings", "seed", f"validation {run.selected_by}", ""]
            parts.append(table(head, rows, f"Trials of {method.name}"))
    if not parts:
        return Html("")
    words = (
        "Settings that nobody can know beforehand were tried out, and those that did best on "
        "validation data were taken, allowing for which seeds each was tried with. Test data had "
        "no part in it."
    )
    return section("selection", "How settings were chosen", tag("p", words), *parts)


def dial(run: RunSummary) -> Html:
    """How every average of Base and stage 2 validated, by the share of links that were removed."""
    found = run.dial
    if found is None:
        return Html("")
    ratios = list(found.by_ratio)
    rows = [
        [
            f"{weight:.1f}",
            *(percent(found.by_ratio[ratio][place]) for ratio in ratios),
            percent(found.scores[place]),
            tag("span", "selected", cls="badge") if weight == found.chosen else "",
        ]
        for place, weight in enumerate(found.weights)
    ]
    removed = [f"{100 * ratio:.0f} % removed" if ratio else "all links" for ratio in ratios]
    said = (
        f"Weights of Base and stage 2 can be averaged: 0 is Base, 1 is stage 2. These are "
        f"validation {run.unit}, as they are and with a share of their links removed. The average "
        "with the best score was selected. If what you predict has fewer links than your data, a "
        "larger share does better; tuneup.Result.interpolate makes the model of any share."
    )
    head = ["share of stage 2", *removed, "selected by", ""]
    numbers = table(head, rows, f"Validation {run.selected_by} by share of stage 2", "numbers")
    return section("dial", f"How cold are your {run.unit}?", tag("p", said), numbers)


def data(run: RunSummary) -> Html:
    """The graph's sizes, and how many links the scored nodes have in each setting."""
    rows = []
    for setting in run.settings:
        found = next((m.scores(setting)[0] for m in run.methods if m.scores(setting)), None)
        if found is not None and len(found):
            degree = found.degree
            few = int((degree <= run.tail_degree).sum())
            rows.append(
                [
                    setting_words(setting, run.unit),
                    f"{len(found):,}",
                    f"{few:,} ({percent(few / len(found), 0)})",
                    f"{int(torch.median(degree)):,}",
                    f"{int(degree.max()):,}",
                ]
            )
    unit = run.unit
    head = [
        "",
        f"scored {unit}",
        f"with at most {run.tail_degree} links",
        "median links",
        "most links",
    ]
    said = tag("p", f"The {unit} that were scored, and how many links they have in each setting:")
    return section("data", "The data", facts(run.data), said, table(head, rows, "Scored " + unit))


def reproduce(run: RunSummary) -> Html:
    """What to type, with which software, on which machine, from which seeds."""
    parts: list[object] = []
    if run.command:
        button = tag("button", "Copy", type="button", cls="copy screen", data_copy="command")
        parts.append(tag("div", verbatim(run.command, "command"), button, cls="command"))
    else:
        parts.append(tag("p", "The command that made this run was not recorded."))
    seeds = listed([str(seed) for seed in run.seeds])
    shown: dict[str, Mapping[str, object]] = {
        "Seeds": {"training": seeds},
        "Settings": {**run.configuration, **_chosen(run)},
        "Software": run.versions,
        "Machine": run.machine,
    }
    for name, pairs in shown.items():
        if pairs:
            parts += [tag("h3", name), facts(pairs)]
    return section("reproduce", "How to get the same again", *parts)


def _chosen(run: RunSummary) -> dict[str, object]:
    return {
        f"{method.name}: {key}": value
        for method in run.methods
        for key, value in method.settings.items()
    }


def glossary(run: RunSummary) -> Html:
    """Every word that the page could not do without."""
    unit = run.unit
    words: dict[str, object] = {
        "Degree": f"The number of links of one of the {unit}.",
        f"Tail {unit}, head {unit}": f"Those with at most {run.tail_degree} links, and the others.",
        "Base": "The model after ordinary training.",
        "Stage 2": "The same model, trained further with a part of all links hidden.",
        "TuneUp": "The model that validation selected: Base, stage 2, or an average of their "
        "weights.",
        "Simple model": "A method without a graph neural network, such as a logistic regression on "
        f"the features of the {unit}: what a trained model must beat.",
        run.metric: metric_meaning(run.metric, run.task),
        "Points": "The difference of two percentages: from 70 % to 78 % is 8 points.",
        "95 % interval": f"Had other {unit} been scored (or other seeds trained, where there are "
        "several), the result would lie in this range in about 95 of 100 cases. A gain whose "
        "interval holds 0 may be chance.",
        "Epoch, loss": "A round of training, and the error that it tries to make small.",
        "Validation": "Data kept apart, to decide when to stop and which state and settings win.",
        "Seed": "The number that all chance in a training comes from: same seed, same result.",
    }
    words |= {setting_words(s, unit).capitalize(): setting_meaning(s, unit) for s in run.settings}
    return section("glossary", "Words", facts(words))
