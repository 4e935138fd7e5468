"""A save that fails or is killed leaves the old model or none, never a half."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from serving_toys import small_encoder, small_graph

from tuneup.errors import OutputError
from tuneup.files import remove_partials
from tuneup.inference import Predictor, save_artefact

WORKER = """
import os, resource, signal, sys
sys.path.insert(0, sys.argv[1])
from serving_toys import small_encoder, small_graph
from tuneup.errors import OutputError
from tuneup.inference import save_artefact

folder, how = sys.argv[2:4]
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
    print(error)
"""


def save_elsewhere(folder, how):
    """Save in a process of its own, which is killed or runs out of room."""
    here = os.path.dirname(__file__)
    return subprocess.run(
        [sys.executable, "-c", WORKER, here, str(folder), how],
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("there", [False, True])
def test_a_killed_save_leaves_what_was_there(there, tmp_path):
    place = tmp_path / "model"
    if there:
        save_artefact(place, small_encoder("sage"), small_graph())
    # With a model in place, that one is moved aside first.
    done = save_elsewhere(place, "model" if there else ".partial")
    assert done.returncode == -signal.SIGKILL
    assert place.exists() is there
    if there:
        assert Predictor.load(place).model.artefact.blueprint.encoder.architecture == "sage"
    remove_partials(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model"] * there
    save_artefact(place, small_encoder("gcn"), small_graph(), overwrite=True)
    assert Predictor.load(place).model.artefact.blueprint.encoder.architecture == "gcn"


def test_a_full_disk_is_told_of_and_leaves_nothing(tmp_path):
    done = save_elsewhere(tmp_path / "model", "full")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"cannot write {tmp_path / 'model'}: File too large")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_told_of(tmp_path):
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "model"):
        with pytest.raises(OutputError, match="cannot write"):
            save_artefact(place, small_encoder(), small_graph())
    assert (tmp_path / "file").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
