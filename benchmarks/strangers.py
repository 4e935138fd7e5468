"""`tuneup fit` on tables that its defaults were not made for, beside simple models.

python -m benchmarks.strangers --data FOLDER                  # every folder of tables in it
python -m benchmarks.strangers --data FOLDER --only ml-100k --set lr=0.003 --seeds 3

A folder of tables holds ``edges.csv`` and perhaps ``nodes.csv``.  Columns ``user`` and ``item`` are
recommendation, a column ``label`` of the nodes is node classification, all else is link prediction.
What is recorded for the same tables, options and seed is not run again.  The table shows the result
minus the best simple model, in percentage points, in every setting.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from tuneup.errors import InputError
from tuneup.report.table import markdown_table
from tuneup.runtime import tune_malloc
from tuneup.tables import Shares, TableRequest, read_tables
from tuneup.workflow.fit import Loaded, fit
from tuneup.workflow.options import FitOptions

from .records import ROOT

RECORDS = ROOT / "runs" / "strangers.jsonl"
NEW = 0.05
Record = dict[str, Any]


def read(folder: Path) -> Loaded:
    """The tables of a folder, split as `tuneup fit` does."""
    edges, nodes = folder / "edges.csv", folder / "nodes.csv"
    heading = _heading(edges)
    if {"user", "item"} <= heading:
        pairs = read_tables(TableRequest((str(edges),), task="recommendation", ignore_weights=True))
        return Loaded.of(pairs, Shares(), 0)
    found = (str(nodes),) if nodes.exists() else ()
    labelled = bool(found) and "label" in _heading(nodes)
    request = TableRequest(
        (str(edges),),
        found,
        task="node-classification" if labelled else "link-prediction",
        ignore_weights=True,
    )
    return Loaded.of(read_tables(request), Shares(new=NEW), 0)


def _heading(path: Path) -> set[str]:
    with path.open(encoding="utf-8") as file:
        return set(file.readline().strip().split(","))


def options_of(loaded: Loaded, changes: Mapping[str, Any], seed: int) -> FitOptions:
    """The defaults of the command line for this task, with changes."""
    usual: dict[str, Any] = {}
    if loaded.task == "node-classification":
        usual["dropout"] = 0.5
    if loaded.task == "recommendation":
        usual["architecture"] = "gcn"
    return replace(FitOptions(seed=seed), **{**usual, **changes})


def measure(folder: Path, changes: Mapping[str, Any], seed: int) -> Record:
    """One fit: mean scores of every model and every floor, by setting."""
    loaded, start = read(folder), time.perf_counter()
    options = options_of(loaded, changes, seed)
    fitted = fit(loaded.problem(options), options)
    dial = fitted.result.record.dial
    return {
        "data": folder.name,
        "task": loaded.task,
        "options": dict(changes),
        "seed": seed,
        "models": {name: _means(scores) for name, scores in fitted.models.items()},
        "floors": {floor.name: _means(floor.scores) for floor in fitted.floors},
        "weight": None if dial is None else dial.chosen,
        "stages": [
            {"epochs": len(stage.epochs), "best": stage.best_epoch, "stopped": stage.stopped}
            for stage in fitted.result.record.stages
        ],
        "seconds": round(time.perf_counter() - start, 1),
    }


def _means(scores: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(score.score.double().mean()) for name, score in scores.items()}


def recorded(path: Path) -> list[Record]:
    """All records of a file; a line that was cut off is left out."""
    if not path.exists():
        return []
    return list(_whole_lines(path))


def _whole_lines(path: Path) -> Iterator[Record]:
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def key_of(record: Record) -> str:
    """What is measured once."""
    return json.dumps([record[name] for name in ("data", "options", "seed")], sort_keys=True)


def table(records: Sequence[Record]) -> str:
    """The result minus the best floor, by tables and options, over seeds."""
    groups: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in records:
        groups[record["data"], json.dumps(record["options"], sort_keys=True)].append(record)
    settings = list(dict.fromkeys(name for record in records for name in record["models"]["base"]))
    rows = [
        [data, options, str(len(own)), *(_cell(own, name) for name in settings), _stages(own[0])]
        for (data, options), own in sorted(groups.items())
    ]
    heading = ("tables", "options", "seeds", *settings, "epochs (best)")
    return markdown_table(heading, rows, words=(0, 1, 3 + len(settings)))


def _cell(records: Sequence[Record], setting: str) -> str:
    """``71.2 (+3.0, two-hop-logistic)``: the result, its lead, the best floor."""
    if setting not in records[0]["models"]["tuneup"]:
        return ""
    own = fmean(record["models"]["tuneup"][setting] for record in records)
    floors = {
        name: fmean(record["floors"][name][setting] for record in records)
        for name in records[0]["floors"]
        if all(setting in record["floors"].get(name, {}) for record in records)
    }
    if not floors:
        return f"{100 * own:.1f}"
    best = max(floors, key=lambda name: floors[name])
    return f"{100 * own:.1f} ({100 * (own - floors[best]):+.1f}, {best})"


def _stages(record: Record) -> str:
    return ", ".join(f"{stage['epochs']} ({stage['best']})" for stage in record["stages"])


def _changes(texts: Sequence[str]) -> dict[str, Any]:
    """``["lr=0.003"]`` as options of a fit."""
    names = {entry.name for entry in fields(FitOptions)}
    found: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name not in names:
            raise InputError(f"--set names an option of a fit, {', '.join(names)}; got {text!r}.")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what has no record, then print the table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.strangers",
        description="`tuneup fit` on folders of tables, beside simple models.",
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of folders of tables")
    parser.add_argument("--only", nargs="*", default=[], help="names of folders; all by default")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="options of fit")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds of training")
    parser.add_argument("--records", type=Path, default=RECORDS, help="JSON lines")
    parser.add_argument("--table", action="store_true", help="only print what is recorded")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    tune_malloc()
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
    changes = _changes(options.set)
    folders = sorted(path.parent for path in options.data.glob("*/edges.csv"))
    done = {key_of(record) for record in recorded(options.records)}
    options.records.parent.mkdir(parents=True, exist_ok=True)
    for folder in folders if not options.table else []:
        if options.only and folder.name not in options.only:
            continue
        for seed in range(options.seeds):
            if key_of({"data": folder.name, "options": changes, "seed": seed}) in done:
                continue
            record = measure(folder, changes, seed)
            with options.records.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(folder.name, seed, f"{record['seconds']:.0f} s", flush=True)
    print(table(recorded(options.records)))


if __name__ == "__main__":
    main()
