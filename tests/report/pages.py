"""Small runs to make pages of, and a page taken apart by a parser."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np
import torch

from tuneup.evaluation import ClassReport
from tuneup.metrics import NodeScores, Temperature
from tuneup.report import (
    ClassSummary,
    MethodSummary,
    RunSummary,
    SeedRun,
    StageSummary,
    TrialSummary,
)

SETTINGS = ("transductive", "inductive", "cold-30", "cold-90")
VOID = {"meta", "link", "br", "hr", "img", "input"}


def scores(setting: str, lift: float, seed: int = 0, n: int = 400) -> NodeScores:
    graph, rng = (np.random.default_rng([k, SETTINGS.index(setting)]) for k in (99, seed))
    degree = torch.from_numpy((graph.pareto(1.2, n) * 3).astype(np.int64))
    chance = rng.random(n)  # the same for every lift: what one gets right, a better one does too
    return NodeScores(
        setting,
        "accuracy",
        torch.arange(n),
        degree,
        torch.from_numpy((chance < 0.6 + lift).astype(np.float32)),
    )


def curve(stages: int) -> list[tuple[int, int, float, float | None]]:
    return [
        (stage, epoch, 2 / (epoch + 20 * stage), 0.5 + 0.01 * epoch if epoch % 2 == 0 else None)
        for stage in range(stages)
        for epoch in range(1, 21)
    ]


def method(name: str, lift: float, stages: int, winner: int, seeds: int = 1) -> MethodSummary:
    # Of equals the later is selected, so that stages after the winner validated worse.
    summaries = [
        StageSummary(f"stage {k + 1} of {name}", 20, 20, 0.7 - 0.01 * (k > winner), "ran all")
        for k in range(stages)
    ]
    return MethodSummary(
        name,
        [
            SeedRun(
                seed,
                {s: scores(s, lift, seed) for s in SETTINGS},
                curve(stages),
                summaries,
                winner,
                3.0,
            )
            for seed in range(seeds)
        ],
    )


def run(
    lift: float = 0.1, *, winner: int = 1, title: str = "a run", seeds: int = 1, trials: bool = True
) -> RunSummary:
    tuneup = method("TuneUp", lift, 2, winner, seeds)
    found = [TrialSummary({"alpha": a}, 0, a, a == 0.5) for a in (0.25, 0.5)] if trials else []
    tuneup = MethodSummary("TuneUp", tuneup.runs, {"alpha": "0.5"}, found)
    return RunSummary(
        title,
        "node-classification",
        "sage",
        "accuracy",
        [method("Base", 0.0, 1, 0, seeds), tuneup],
        data={"graph": "toy", "nodes": "400"},
        command="tuneup demo --seed 0",
        versions={"torch": "2.13"},
        machine={"cores": "2"},
    )


def class_report(skill: float, classes: int = 2) -> ClassReport:
    """Of 300 nodes, a tenth of them not of class 0; more skill ranks them better."""
    y = (torch.arange(300) % 10 == 0).long() * (1 + torch.arange(300) % (classes - 1))
    logits = torch.randn(300, classes, generator=torch.Generator().manual_seed(0))
    logits[torch.arange(300), y] += skill
    return ClassReport.of(logits.softmax(1), y, torch.arange(300) % 9)


def class_summary(skill: float = 3.0, floor: float = 1.0, classes: int = 2) -> ClassSummary:
    models = {"Base": 2.0, "Stage 2": 2.5, "Result": skill}
    floors = {"a tree": floor - 0.5, "a line": floor}
    settings = ("transductive", "cold-90")

    def groups(skills):
        found = {name: class_report(value, classes).groups for name, value in skills.items()}
        return {name: dict.fromkeys(settings, each) for name, each in found.items()}

    return ClassSummary(
        "average-precision" if classes == 2 else "macro-f1",
        ("ok", "fraud") if classes == 2 else tuple(f"c{k}" for k in range(classes)),
        Temperature(1.5, 0.8),
        dict.fromkeys(settings, 0.1234),
        dict.fromkeys(settings, class_report(skill, classes)),
        groups(models),
        groups(floors),
    )


class Page(HTMLParser):
    """Everything that the tests ask of a page, found while it is read once."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self.open: list[str] = []
        self.words: list[str] = []
        self._scripts: list[str] = []
        self._of: str | None = None
        self.feed(html)
        self.close()
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.tags.append((tag, found))
        if tag not in VOID:
            self.open.append(tag)
        if "id" in found:
            self._of = found["id"]
        if tag == "script":
            self._scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        inside = self.open[-1] if self.open else ""
        if inside == "script":
            self._scripts[-1] += data
        elif inside != "style":
            self.words.append(data.replace("\xa0", " "))
            if self._of:
                self.texts[self._of] = self.texts.get(self._of, "") + data.replace("\xa0", " ")

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def headline(self) -> str:
        return next(word for word in self.texts["headline"].splitlines() if word)

    @property
    def data(self) -> dict[str, object]:
        found = json.loads(self._scripts[0])
        assert isinstance(found, dict)
        return found

    @property
    def sections(self) -> list[str | None]:
        return [attributes.get("id") for tag, attributes in self.tags if tag == "section"]

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)
