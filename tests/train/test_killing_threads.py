"""A killed run on two threads, with tensors large enough to be split among them, ends the same."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from pathlib import Path
import torch
from safetensors.torch import save_file
from tests.train.kill_worker import die_at, flat
from tuneup.curriculum import Schedule, tuneup
from tuneup.data import block_graph, split_nodes
from tuneup.nn import Encoder
from tuneup.tasks import NodeClassification
from tuneup.train import Checkpoints, train

folder, moments = Path(sys.argv[1]), sys.argv[2:]
assert torch.get_num_threads() == 2
for moment in moments:
    die_at(moment)
graph = block_graph(6000, 30000, 4, 32)
task = NodeClassification.from_split(graph, split_nodes(6000, labelled=0.1))
torch.manual_seed(0)
model = Encoder(32, 4, architecture="gcn", width=64, dropout=0.5)
stages = tuneup(0.5, Schedule(5, lr=0.01), Schedule(4, lr=0.01))
result = train(model, task, stages, checkpoints=Checkpoints(folder / "run", 2))
tensors, _ = flat(result)
save_file(tensors, folder / "end.safetensors")
"""


def run(folder: Path, *moments: str) -> int:
    paths = [str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", SCRIPT, str(folder), *moments]
    return subprocess.run(command, cwd=ROOT, env=environ, timeout=200).returncode


def test_two_threads(tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for folder in (whole, killed):
        folder.mkdir()
    assert run(whole) == 0
    for moment in (
        "rename run/progress 2",
        "rename run/progress 2",
    ):
        assert run(killed, moment) == -signal.SIGKILL
    assert run(killed) == 0
    expected, found = (load_file(folder / "end.safetensors") for folder in (whole, killed))
    assert expected.keys() == found.keys()
    assert all(torch.equal(found[key], value) for key, value in expected.items())
