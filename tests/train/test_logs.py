"""Logs of training: each epoch once, whatever happened to the process, and TensorBoard's files."""

import json
import sys
from dataclasses import replace

import pytest

from tests.train.broken_runs import STAGES, Stop, stop_at
from tests.train.toy import small_encoder
from tuneup.errors import InputError, OutputError
from tuneup.train import Checkpoints, JsonLines, Progress, TensorBoard, both, train

TOLD = Progress(1, 2, 1, 5, 0.5, None, float("-inf"), 0.25, "accuracy", "", 0.01)
EPOCHS = [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 1), (2, 2), (2, 3), (2, 4)]


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def epochs(path):
    return [(line["stage"], line["epoch"]) for line in lines(path)]


def test_a_line_has_all_that_was_told(task, whole, tmp_path):
    path = tmp_path / "new" / "log.jsonl"
    train(small_encoder(), task, STAGES, callback=JsonLines(path))
    found = lines(path)
    assert epochs(path) == EPOCHS
    for line, (stage, epoch, loss, score) in zip(found, whole.record.curves(), strict=True):
        told = line["stage"] - 1, line["epoch"], line["loss"], line["score"]
        assert told == (stage, epoch, loss, score)
        assert (line["metric"], line["lr"]) == ("accuracy", 0.01)
        assert line["seconds"] > 0
    assert found[4]["best"] == max(line["score"] for line in found[:5])
    assert [line["stopped"] for line in found if "stopped" in line] == [
        "ran all 5 epochs",
        "ran all 4 epochs",
    ]
    times = [line["time"] for line in found]
    assert times == sorted(times)
    assert times[0].endswith("+00:00")


def test_no_score_is_null(tmp_path):
    JsonLines(tmp_path / "log")(TOLD)
    (line,) = lines(tmp_path / "log")
    assert (line["score"], line["best"]) == (None, None)


def test_a_resumed_run_tells_each_epoch_once(task, tmp_path):
    """Checkpoints are of every second epoch: those after the last one are told again."""
    places = Checkpoints(tmp_path, 2)
    for stage, epoch in ((1, 3), (2, 3), (3, 0)):
        log = JsonLines(tmp_path / "log.jsonl")
        told = []
        callback = both(log, None, told.append, stop_at(stage, epoch))
        if stage < 3:
            with pytest.raises(Stop):
                train(small_encoder(), task, STAGES, checkpoints=places, callback=callback)
        else:
            train(small_encoder(), task, STAGES, checkpoints=places, callback=callback)
    assert (told[0].stage, told[0].epoch) == (2, 3)
    assert epochs(tmp_path / "log.jsonl") == EPOCHS


def test_a_run_that_begins_anew_begins_its_log_anew(task, tmp_path):
    log = tmp_path / "log.jsonl"
    train(small_encoder(), task, STAGES, callback=JsonLines(log))
    first = lines(log)
    one = JsonLines(log)
    for seed in (1, 2):  # a new one, and the same one again
        train(small_encoder(), task, STAGES, seed=seed, callback=one)
        assert epochs(log) == EPOCHS
        assert [line["loss"] for line in lines(log)] != [line["loss"] for line in first]
        first = lines(log)


def test_an_epoch_that_is_trained_again_is_told_again(tmp_path):
    """As on a device whose sums are in no fixed order."""
    path = tmp_path / "log"
    for epoch in (1, 2, 3, 4):
        JsonLines(path)(replace(TOLD, epoch=epoch))
    JsonLines(path)(replace(TOLD, epoch=3, loss=9.0))
    assert [(line["epoch"], line["loss"]) for line in lines(path)] == [(1, 0.5), (2, 0.5), (3, 9.0)]


def test_whatever_is_left_of_a_line_is_repaired(tmp_path):
    path = tmp_path / "log"
    for epoch in (1, 2):
        JsonLines(path)(replace(TOLD, epoch=epoch))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in (*range(first, len(whole), 17), len(whole) - 1):
        path.write_bytes(whole[:end])
        for epoch in (2, 3):
            JsonLines(path)(replace(TOLD, epoch=epoch))
        assert epochs(path) == [(1, 1), (1, 2), (1, 3)]
        assert path.read_bytes().startswith(whole[:first])


def test_a_log_is_completed_from_the_record(task, whole, tmp_path):
    log = JsonLines(tmp_path / "log")
    train(small_encoder(), task, STAGES, callback=log)
    told = log.path.read_text().splitlines(keepends=True)
    other = json.dumps({**json.loads(told[4]), "loss": 9.0}) + "\n"  # of another run
    log.path.write_text("".join([told[1], *told[3:4], other, *told[6:], told[0][:20]]))
    log.complete(whole.record)
    assert epochs(log.path) == EPOCHS
    found = lines(log.path)
    lost = [(1, 1), (1, 3), (1, 5), (2, 1)]
    assert [line["time"] is None for line in found] == [place in lost for place in EPOCHS]
    assert [line["loss"] for line in found] == [loss for _, _, loss, _ in whole.record.curves()]
    assert found[4]["stopped"] == "ran all 5 epochs"
    before = log.path.read_bytes()
    log.complete(whole.record)
    assert log.path.read_bytes() == before


def test_a_log_that_cannot_be_written_says_so(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot write .*file"):
        JsonLines(tmp_path / "file" / "log")(TOLD)


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {
        name: [(each.step, each.value) for each in found.Scalars(name)]
        for name in found.Tags()["scalars"]
    }


def test_tensorboard_reads_its_files_back(task, whole, tmp_path):
    """Also those of a run that was broken off and gone on with, each epoch once."""
    for stop in (stop_at(2, 3), None):
        with TensorBoard(tmp_path / "board") as board:
            callback = both(board, stop)
            places = Checkpoints(tmp_path / "run", 2)
            if stop is not None:
                with pytest.raises(Stop):
                    train(small_encoder(), task, STAGES, checkpoints=places, callback=callback)
            else:
                train(small_encoder(), task, STAGES, checkpoints=places, callback=callback)
    for number, stage in enumerate(whole.record.stages, 1):
        found = scalars(tmp_path / "board" / f"stage-{number}")
        losses = [(e.epoch, pytest.approx(e.loss)) for e in stage.epochs]
        assert found["loss"] == losses
        assert found["validation accuracy"] == [
            (e.epoch, pytest.approx(e.score)) for e in stage.epochs
        ]
        assert found["lr"] == [(e.epoch, pytest.approx(e.lr)) for e in stage.epochs]


def test_without_tensorboard_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # an import of it fails
    with pytest.raises(InputError, match=r"pip install 'tuneup-gnn\[tensorboard\]'"):
        TensorBoard(tmp_path / "board")
    assert not (tmp_path / "board").exists()
