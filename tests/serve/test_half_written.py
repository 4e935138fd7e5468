"""A save that fails or is killed leaves the old model or none, never a half."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from serving_toys import save_artefact, small_encoder, small_graph

from tuneup.errors import OutputError
from tuneup.files import remove_partials
from tuneup.serve import Predictor

WORKER = """
import json, os, resource, signal, sys
sys.path.insert(0, sys.argv[1])
from serving_toys import small_encoder, small_graph
from tuneup.errors import OutputError
from serving_toys import save_artefact

def work(folder, how):
    if how == "full":
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    else:
        def hook(event, args):
            if event == "os.rename" and os.fspath(args[0]).endswith(how):
                os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
    try:
        save_artefact(folder, small_encoder("gcn"), small_graph(), overwrite=True)
    except OutputError as error:
        print(error, flush=True)

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work(*json.loads(line))
            status = 0
        finally:
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def save_elsewhere():
    """Saves in a process of its own, which is killed or runs out of room; answers its lines."""
    here = os.path.dirname(__file__)
    with subprocess.Popen(
        [sys.executable, "-c", WORKER, here],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:

        def save(folder, how):
            worker.stdin.write(json.dumps([str(folder), how]) + "\n")
            worker.stdin.flush()
            lines = [worker.stdout.readline().strip()]
            while not lines[-1].lstrip("-").isdigit():
                lines.append(worker.stdout.readline().strip())
            return lines

        yield save
        worker.stdin.close()


@pytest.mark.parametrize("there", [False, True])
def test_a_killed_save_leaves_what_was_there(there, save_elsewhere, tmp_path):
    place = tmp_path / "model"
    if there:
        save_artefact(place, small_encoder("sage"), small_graph())
    # With a model in place, that one is moved aside first.
    assert save_elsewhere(place, "/model" if there else ".partial") == [str(-signal.SIGKILL)]
    assert place.exists() is there
    if there:
        assert Predictor.load(place).model.artefact.blueprint.encoder.architecture == "sage"
    remove_partials(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model"] * there
    save_artefact(place, small_encoder("gcn"), small_graph(), overwrite=True)
    assert Predictor.load(place).model.artefact.blueprint.encoder.architecture == "gcn"


def test_a_full_disk_is_told_of_and_leaves_nothing(save_elsewhere, tmp_path):
    line, status = save_elsewhere(tmp_path / "model", "full")
    assert status == "0"
    assert line.startswith(f"cannot write {tmp_path / 'model'}: File too large")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told_of(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "model"):
        with pytest.raises(OutputError, match="cannot write"):
            save_artefact(place, small_encoder(), small_graph())
    assert (tmp_path / "file").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
