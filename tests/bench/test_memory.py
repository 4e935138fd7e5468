"""A run's own peak of memory, in a process that has done other things before."""

import json
from types import SimpleNamespace

import torch

from tuneup.bench.memory import PeakMemory

TRAINED, VALIDATED = SimpleNamespace(score=None), SimpleNamespace(score=0.5)


def test_a_run_is_charged_with_its_own_memory_only(tmp_path):
    torch.ones(60_000_000).sum()  # another run, before this one
    memory = PeakMemory(tmp_path)
    block = torch.ones(10_000_000)
    memory(TRAINED)
    peak = memory.keep()
    del block
    assert json.loads((tmp_path / "memory.json").read_text()) == {"peak_rss": peak}
    larger = PeakMemory(tmp_path)
    block = torch.ones(40_000_000)
    larger(TRAINED)
    assert larger.keep() > peak + 80_000_000
    del block


def test_a_run_that_is_only_looked_up_tells_nothing_new(tmp_path):
    assert PeakMemory(tmp_path).keep() is None
    (tmp_path / "memory.json").write_text('{"peak_rss": 7}')
    assert PeakMemory(tmp_path).keep() == 7


def test_what_a_stopped_run_took_counts_as_well(tmp_path):
    (tmp_path / "memory.json").write_text(json.dumps({"peak_rss": 1 << 50}))
    memory = PeakMemory(tmp_path)
    memory(TRAINED)
    assert memory.keep() == 1 << 50


def test_a_run_that_is_killed_has_told_of_its_memory(tmp_path):
    memory = PeakMemory(tmp_path)
    memory(TRAINED)
    assert not (tmp_path / "memory.json").exists()
    memory(VALIDATED)
    told = json.loads((tmp_path / "memory.json").read_text())["peak_rss"]
    assert 0 < told <= memory.keep()
