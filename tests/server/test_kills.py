"""SIGKILL at any moment loses nothing that was acknowledged, and a retry doubles nothing."""

import random
import threading
import time

import pytest
from processes import READY, Running
from serving_toys import WIDTH, node_ids, save_artefact, small_encoder, small_graph

from tuneup.errors import TuneupError
from tuneup.server import Client
from tuneup.server.engine import Engine
from tuneup.server.live import Live


def test_a_killed_server_keeps_what_it_acknowledged(tmp_path):
    save_artefact(tmp_path / "model", small_encoder("gcn"), small_graph(), ids=node_ids())
    acknowledged: set[str] = set()
    waiting = [f"x{number}" for number in range(2_000)]
    lock, rng = threading.Lock(), random.Random(0)

    def add(url: str) -> None:
        """Until the server is gone; what was not acknowledged waits for the next one."""
        with Client(url, timeout=READY) as client:
            while waiting:
                with lock:
                    name = waiting.pop()
                seed = random.Random(name)
                node = {
                    "id": name,
                    "features": [round(seed.gauss(0, 1), 3) for _ in range(WIDTH)],
                    "neighbours": seed.sample(node_ids(), 2),
                }
                try:
                    client.add_nodes([node], key=name)
                except TuneupError:
                    with lock:
                        waiting.append(name)
                    return
                acknowledged.add(name)

    for moment in range(3):
        server = Running(tmp_path / "model", "--live", tmp_path / "graph.db")
        try:
            if acknowledged:
                found = server.client.predict(sorted(acknowledged))
                assert [answer.degree for answer in found] == [2] * len(acknowledged)
            threads = [threading.Thread(target=add, args=(server.url,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            wanted = len(acknowledged) + 30 * (moment + 1)
            while len(acknowledged) < wanted:
                time.sleep(0.001)
            time.sleep(rng.random() * 0.01)
        finally:
            server.kill()
        for thread in threads:
            thread.join(READY)
    engine = Engine.load(tmp_path / "model")
    live = Live(engine, tmp_path / "graph.db")
    kept = [node["id"] for _, _, row in live.store.since(0) for node in row]
    assert len(kept) == len({*kept})
    assert {*kept} >= acknowledged
    assert len(kept) <= len(acknowledged) + 4  # committed, and killed before it could say so
    assert live.passed_over == 0
    with pytest.raises(TuneupError, match="no answer"):
        Client(server.url).predict(["n01"])
