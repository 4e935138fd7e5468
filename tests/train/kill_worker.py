"""Trains three runs with checkpoints, in a process made to be killed.

    python -m tests.train.kill_worker

answers one JSON order a line: ``{"folder": ..., "die": ...}``.  Each gets a process of its own,
forked after the slow imports and before any tensor: its id is printed and, when it has ended, its
status.  ``die`` names a moment of writing, like "rename encoder/progress 2": the process kills
itself with SIGKILL when the system is about to be asked for that, here for the second time.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import torch
import torch_geometric.nn  # noqa: F401  slow: before the fork
from safetensors.torch import save_file

from tests.train import toy
from tuneup.curriculum import Schedule, tuneup
from tuneup.train import Checkpoints, JsonLines, Result, train
from tuneup.train.result import Progress

EVERY = 3
PRETRAIN = Schedule(10, lr=0.01, validate_every=2, patience=6)
FINETUNE = Schedule(8, lr=0.005, milestones=(4,), weight_decay=1e-3)


def runs(folder: Path | None, tell=None) -> dict[str, Result]:
    """Our encoder, a PyG module with dropout and batch norm, and the curriculum of four modules."""
    stages = tuneup(0.5, PRETRAIN, FINETUNE)
    toys = {"modules": toy.toy_modules()}
    jobs = {
        "encoder": (toy.small_encoder(norm="layer"), stages, {}),
        "pyg": (toy.PygNet(), stages, {}),
        "toy": (toy.small_encoder(), toy.toy_curriculum(), toys),
    }
    results = {}
    for name, (model, curriculum, options) in jobs.items():
        place = None if folder is None else Checkpoints(folder / name, EVERY)
        told = None if tell is None else lambda progress, name=name: tell(name, progress)
        results[name] = train(
            model, toy.small_task(), curriculum, seed=3, checkpoints=place, callback=told, **options
        )
    return results


def flat(result: Result) -> tuple[dict[str, torch.Tensor], str]:
    """Every weight a run ended with and every number it measured, but no timing."""
    tensors = {}
    for index, state in enumerate(result.states):
        tensors |= {f"state/{index}/{key}": value for key, value in state.items()}
    for name, module in result.modules.items():
        tensors |= {f"module/{name}/{key}": value for key, value in module.state_dict().items()}
    for index, labels in result.pseudo_labels.items():
        tensors |= {f"pseudo/{index}/{key}": value for key, value in vars(labels).items()}
    stages = [
        (s.best_epoch, s.best_score, s.stopped, s.pseudo_labels, s.digest)
        for s in result.record.stages
    ]
    lrs = [epoch.lr for stage in result.record.stages for epoch in stage.epochs]
    measured = (result.record.curves(), stages, lrs, result.record.winner)
    return {key: value.detach().clone() for key, value in tensors.items()}, json.dumps(measured)


def die_at(moment: str) -> None:
    """SIGKILL when a file of that name is about to be renamed or removed for the nth time."""
    name, left = moment.rsplit(" ", 1)
    count = int(left)

    def hook(event: str, args: tuple[object, ...]) -> None:
        nonlocal count
        if event in ("os.rename", "os.remove"):
            path = Path(os.fsdecode(args[1] if event == "os.rename" else args[0]))
            told = f"{event.removeprefix('os.')} {path.parent.name}/{path.name}"
            count -= told.startswith(name)
            if not count:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def work(folder: Path, die: str | None) -> None:
    """One life of the process: goes on with what it finds, and writes its result at the end."""
    torch.manual_seed(os.getpid())  # the caller's own draws must not matter
    if die is not None:
        die_at(die)
    with open(folder / "progress", "a", buffering=1) as file:
        logs = {name: JsonLines(folder / f"{name}.jsonl") for name in ("encoder", "pyg", "toy")}

        def tell(name: str, progress: Progress) -> None:
            logs[name](progress)
            file.write(f"{name} {progress.stage} {progress.epoch}\n")

        for name, result in runs(folder, tell).items():
            logs[name].complete(result.record)
            tensors, measured = flat(result)
            save_file(tensors, folder / f"{name}.safetensors")
            (folder / f"{name}.json").write_text(measured)


def main() -> None:
    """Fork, tell, wait, tell, until the orders end."""
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                work(Path(order["folder"]), order["die"])
                status = 0
            except BaseException as error:  # the parent's loop must not go on in here
                print(repr(error), file=sys.stderr, flush=True)
            os._exit(status)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
