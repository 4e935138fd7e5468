"""Train in one process, on one machine or on several, with the same lines.

    python examples/torchrun_fit.py                                          # one process
    torchrun --nproc-per-node 2 --max-restarts 3 examples/torchrun_fit.py    # one machine

    # Two machines: the same line on both; node0 is the name of either.
    torchrun --nnodes 2 --nproc-per-node 2 --max-restarts 3 --rdzv-backend c10d \
        --rdzv-endpoint node0:29500 --rdzv-id run1 examples/torchrun_fit.py

Every process holds the same graph and takes the loss on its slice of each batch; gradients are
added up, so the losses are those of one process with the whole batch. Processes differ in what
dropout they draw. Rank 0 validates, prints and writes the checkpoints, which may be on a disk of
its own. If a process dies, torchrun starts all of them again, and they resume from the last
checkpoint: rank 0 must then be on the machine that has it, so share the folder between machines
that may change roles. Without a GPU for each process, messages go by gloo.
"""

import sys

import torch

import tuneup
from tuneup.data import demo_data
from tuneup.train import Checkpoints, join

ranks = join()  # alone without torchrun
folder = sys.argv[1] if len(sys.argv) > 1 else "runs/torchrun-fit"
torch.manual_seed(0)
data = demo_data()
model = tuneup.Encoder(data.num_features, 10, width=64, num_layers=2)
schedule = tuneup.Schedule(epochs=40, lr=0.01)
result = tuneup.fit(
    model,
    data,
    pretrain=schedule,
    finetune=schedule,
    checkpoints=Checkpoints(folder, every=5),
)
if ranks.is_main:
    losses = [stage.epochs[-1].loss for stage in result.record.stages]
    print(
        f"{ranks.world} processes: validation {result.record.validation:.3f}, last losses {losses}"
    )
