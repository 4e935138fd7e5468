"""Trains under torchrun and writes its weights; a rank kills itself where it is asked to.

Arguments: file of the weights, folder of checkpoints, and ``restart:rank:stage:step`` of each kill.
"""

import os
import signal
import sys
from dataclasses import replace

import torch

import tuneup
from tuneup.curriculum import Update, task_loss
from tuneup.data import block_graph
from tuneup.train import Checkpoints, join, train

RESTART = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
KILLS = [tuple(map(int, each.split(":"))) for each in sys.argv[3:]]


def fatal_loss(update: Update) -> torch.Tensor:
    here = (RESTART, int(os.environ["RANK"]), update.moment.stage, update.moment.step)
    if here in KILLS:
        os.kill(os.getpid(), signal.SIGKILL)
    return task_loss(update)


def main() -> None:
    ranks = join()
    torch.manual_seed(0)
    graph = block_graph(80, 240, 3, 8, seed=1)
    task = tuneup.NodeClassification(graph, torch.arange(7), torch.arange(40, 60), batch_size=3)
    model = tuneup.Encoder(8, 3, width=8, num_layers=2, dropout=0.3)
    stages = tuneup.curriculum.tuneup(0.5, *2 * [tuneup.Schedule(epochs=5, lr=0.05)])
    stages = tuple(replace(stage, objective=fatal_loss) for stage in stages)
    result = train(model, task, stages, checkpoints=Checkpoints(sys.argv[2], every=1))
    if ranks.is_main:
        print(f"trained {len(result.record.stages)} stages in {ranks.world} processes")
    weights = torch.cat([each.detach().reshape(-1) for each in model.parameters()])
    weights.numpy().tofile(f"{sys.argv[1]}-{ranks.rank}")


if __name__ == "__main__":
    main()
