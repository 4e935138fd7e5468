"""What an answer about a new node costs, and what it is worth to a user who has just arrived.

    python -m benchmarks.serving new-node      # time against the bare layers, and what is allocated
    TUNEUP_DATA=... python -m benchmarks.serving new-users     # gowalla's users, held out whole

Both write to ``benchmarks/results/serving.json`` and print tables.  The second trains first; a run
that was stopped goes on from its checkpoint in ``runs``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tuneup.errors import TuneupError
from tuneup.files import write_atomic
from tuneup.runtime import tune_malloc

from . import machine, new_node
from .case import ARXIV_NODES
from .records import ROOT
from .sections import join, unmeasured

RESULTS = ROOT / "benchmarks" / "results" / "serving.json"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving")
    parser.add_argument("part", choices=["new-node"])
    parser.add_argument("--nodes", type=int, default=ARXIV_NODES, help="of the graph")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--width", type=int, default=64, help="of the learned embeddings")
    parser.add_argument("--epochs", type=int, nargs=2, default=[120, 40], help="of both stages")
    parser.add_argument("--fresh", action="store_true", help="forget what was measured before")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure one part and put it beside the other."""
    options = parse(arguments)
    torch.set_num_threads(options.threads)
    tune_malloc()
    try:
        known = {} if options.fresh else _recorded(options.results).get("new-node", {})
        keep = partial(_record, options)
        text = new_node.tables(new_node.measure(options.nodes, options.requests, known, keep))
    except TuneupError as error:
        raise SystemExit(f"Error: {error}") from error
    print(text)


def section(path: Path = RESULTS) -> str:
    """Both parts as Markdown; one that was not measured says so."""
    found = _recorded(path)
    texts = []
    for part, module in (("new-node", new_node),):
        command = f"python -m benchmarks.serving {part}"
        if part not in found:
            texts.append(unmeasured(f"benchmarks.serving {part}", "benchmarks.real_tables"))
            continue
        here = ", ".join(f"{key} {value}" for key, value in found[part]["machine"].items())
        texts += [f"`{command}`: {here}.", module.tables(found[part])]
    return join(*texts)


def _recorded(path: Path) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return whole


def _record(options: argparse.Namespace, found: dict[str, Any]) -> None:
    whole = _recorded(options.results)
    here = {**machine.describe(), "cores": f"{options.threads} threads used"}
    whole[options.part] = {**found, "machine": here}
    options.results.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(options.results, json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
