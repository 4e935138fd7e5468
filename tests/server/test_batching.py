"""Requests in batches: turns are fair, a full queue is said, one that fails fails alone."""

import asyncio
import time

import pytest
from serving_toys import WIDTH, node_ids, save_artefact, small_encoder, small_graph

from tuneup.errors import InputError
from tuneup.server.batching import Batcher, QueueFull
from tuneup.server.engine import Ask, Engine
from tuneup.server.questions import NewNode


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "nodes"
    return Engine.load(save_artefact(folder, small_encoder("gcn"), small_graph(), ids=node_ids()))


def new(count, neighbour="n01"):
    node = NewNode(features=[0.5] * WIDTH, neighbours=[neighbour])
    return Ask("new", new=(node,) * count)


def gathered(engine, asks, queue=1000):
    """Answers or errors, when each came, and the batches."""
    batches = []
    batcher = Batcher(queue, 0.001, lambda jobs, rows: batches.append((jobs, rows)))

    async def one(ask):
        try:
            found = await batcher.ask(engine, ask)
        except Exception as error:
            found = error
        return found, time.perf_counter()

    async def every():
        return await asyncio.gather(*map(one, asks))

    found = asyncio.run(every())
    batcher.close()
    return [each for each, _ in found], [when for _, when in found], batches


def test_a_large_request_does_not_keep_the_others(engine):
    answers, when, batches = gathered(engine, [new(4000), *[new(1) for _ in range(20)]])
    assert len(answers[0].answers) == 4000
    assert [each["id"] for each in answers[0].answers] == list(range(4000))
    assert max(when[1:]) < when[0]
    assert max(rows for _, rows in batches) <= 1024
    assert any(jobs > 1 for jobs, _ in batches)


def test_a_full_queue_is_said_at_once_and_what_waits_is_answered(engine):
    answers, _, _ = gathered(engine, [new(1) for _ in range(300)], queue=5)
    full = [each for each in answers if isinstance(each, QueueFull)]
    assert full
    assert all(len(each.answers) == 1 for each in answers if not isinstance(each, QueueFull))
    assert len(full) < 300


def test_one_that_is_refused_is_refused_alone(engine):
    wrong = new(40, "nobody")
    late = NewNode(features=[0.5] * WIDTH, neighbours=["nobody"])
    mixed = Ask("new", new=(*new(70).new, late))
    answers, _, _ = gathered(engine, [new(2), wrong, new(3), mixed])
    assert [len(answers[row].answers) for row in (0, 2)] == [2, 3]
    assert isinstance(answers[1], InputError)
    assert "new node 0" in str(answers[1])
    assert "new node 70" in str(answers[3])
