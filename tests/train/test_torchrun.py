"""Launched by torchrun, as users do: restarts, two machines, and the command line."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tuneup.serve.artefact import is_artefact

pytestmark = pytest.mark.timeout(900)  # three starts of torch where other programs run too
WORKER = Path(__file__).parent / "ranks_worker.py"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
ALONE = ["--standalone", "--nproc-per-node", "2"]


def start(*words):
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [*TORCHRUN, *map(str, words)],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    try:
        out, errors = process.communicate(timeout=800)
    finally:
        process.kill()
    return process.returncode, out, errors


def weights(path):
    return [np.fromfile(f"{path}-{rank}", dtype=np.float32) for rank in range(2)]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Weights of a run whose two ranks were started by two agents, as on two machines."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    agent = [
        *("--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "test"),
        *("--rdzv-endpoint", f"127.0.0.1:{port}", "--local-addr", "127.0.0.1"),
    ]
    # Every "machine" has a disk of its own: only rank 0 reads and writes checkpoints.
    agents = [start(*agent, WORKER, folder / "w", folder / f"disk-{k}") for k in range(2)]
    done = [finish(each) for each in agents]
    assert [each[0] for each in done] == [0, 0], done
    printed = "".join(each[1] for each in done)
    assert printed.count("trained 2 stages in 2 processes") == 1
    assert len(list(folder.glob("disk-*"))) == 1
    return weights(folder / "w")


def test_two_agents_train_one_model(undisturbed):
    assert np.isfinite(undisturbed[0]).all()
    assert np.array_equal(*undisturbed)


def test_killed_ranks_restart_and_end_alike(undisturbed, tmp_path):
    kills = ["0:1:0:7", "1:0:1:17"]  # rank 1 in stage 1; then, after a restart, rank 0 in stage 2
    words = [*ALONE, "--max-restarts", "2", WORKER, tmp_path / "w", tmp_path / "c", *kills]
    code, out, errors = finish(start(*words))
    assert code == 0, errors
    assert errors.count("failed (exitcode: -9)") == 2
    assert out.count("trained 2 stages") == 1
    for found in weights(tmp_path / "w"):
        assert np.array_equal(found, undisturbed[0])
    assert not list((tmp_path / "c").glob(".*"))


def test_fit_prints_once_and_saves_once(tmp_path):
    (tmp_path / "edges.csv").write_text(
        "source,target\n"
        + "".join(f"{k},{(7 * k + 1) % 60}\n{k},{(k + 3) % 60}\n" for k in range(60))
    )
    (tmp_path / "nodes.csv").write_text(
        "id,size,label\n" + "".join(f"{k},{k % 7},{'ab'[k % 2]}\n" for k in range(60))
    )
    tables = ["--edges", tmp_path / "edges.csv", "--nodes", tmp_path / "nodes.csv"]
    words = [*ALONE, "-m", "tuneup", "fit", *tables, "--epochs", "4", "--width", "8", "--out"]
    code, out, errors = finish(start(*words, tmp_path / "model"))
    assert code == 0, errors
    assert out.count("saved ") == 1
    assert is_artefact(tmp_path / "model")
    code, out, errors = finish(start(*words, tmp_path / "model"))  # it is there now
    assert code != 0
    (line,) = [each for each in errors.splitlines() if each.startswith("Error: ")]
    assert "is not empty: choose another --out" in line
