"""A server as its users meet it: a process of its own, asked over HTTP."""

import json
import os
import re
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from urllib.request import Request, urlopen

import pytest
import torch
from malformed_requests import MALFORMED
from processes import READY, running
from serving_toys import (
    WIDTH,
    link_model,
    node_ids,
    recommender,
    save_artefact,
    small_encoder,
    small_graph,
    small_pairs,
)

from tuneup.errors import InputError
from tuneup.serve import Predictor
from tuneup.server import Client

LABELS = list("abcde")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("models")
    save_artefact(
        place / "nodes", small_encoder("gcn"), small_graph(), ids=node_ids(), labels=LABELS
    )
    save_artefact(place / "links", link_model(), small_graph(), ids=node_ids())
    return place


@pytest.fixture(scope="module")
def server(folder):
    """Without --live, with limits that are easily passed."""
    limits = ("--max-body", 20_000, "--max-nodes", 50, "--max-k", 40, "--max-neighbours", 100)
    with running(folder / "nodes", *limits) as made:
        yield made
        assert "Traceback" not in made.read()


def raw(server, data: bytes, seconds: float = READY) -> bytes:
    """Bytes sent as they are; the answer is all that comes back."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as made:
        made.sendall(data)
        found = b""
        try:
            while part := made.recv(65536):
                found += part
                head, _, body = found.partition(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head)
                if length and len(body) >= int(length[1]):
                    break
        except (TimeoutError, ConnectionResetError):
            pass
        return found


def post(server, path: str, body: bytes, kind: str = "application/json", **headers):
    """Status and JSON of an answer, whatever it is."""
    more = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n{more}\r\n"
    )
    found = raw(server, head.encode() + body)
    status = int(found.split(b" ", 2)[1])
    return status, json.loads(found.partition(b"\r\n\r\n")[2])


def test_a_client_answers_as_a_predictor_does(server, folder):
    predictor, client = Predictor.load(folder / "nodes"), server.client
    ids = node_ids()[:7]
    for ours, theirs in zip(client.predict(ids), predictor.predict(ids), strict=True):
        assert (ours.id, ours.label, ours.degree) == (theirs.id, theirs.label, theirs.degree)
        assert ours.probability == pytest.approx(theirs.probability, abs=1e-6)
    x = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(5))
    lists, between = [["n01", "n02"], ["n05"], []], [(0, 1)]
    for pairs in (None, between):
        ours = client.predict_new(x, lists, between=pairs, ids=["a", "b", "c"])
        theirs = [*predictor.predict_new(x, lists, between=pairs, ids=["a", "b", "c"])]
        assert [(o.id, o.label, o.degree) for o in ours] == [
            (t.id, t.label, t.degree) for t in theirs
        ]
        for one, two in zip(ours, theirs, strict=True):
            assert one.probability == pytest.approx(two.probability, abs=1e-6)
    assert len(client.version) == 12
    for question in (
        lambda asked: asked.predict(["n01", "nobody"]),
        lambda asked: asked.predict_new(x, [["n01"], ["n02"], ["nobody"]]),
        lambda asked: asked.predict_new(x[:, 1:], lists),
        lambda asked: asked.predict_new(x, lists, targets=lists),
        lambda asked: asked.predict_new(x, lists, between=[(0, 7)]),
        lambda asked: asked.predict_new(x, lists, ids=["n01", "b", "c"]),
    ):
        with pytest.raises(InputError) as expected:
            question(predictor)
        with pytest.raises(InputError) as refused:
            question(client)
        said, words = str(refused.value), str(expected.value)
        assert said == words or (said[:30] == words[:30] and "features" in said)


def test_concurrent_requests_share_batches_and_get_their_own_answers(server, folder):
    """One of them is wrong, one is large: neither keeps the others."""
    predictor = Predictor.load(folder / "nodes")
    expected = {answer.id: answer for answer in predictor.predict(node_ids())}
    x = torch.ones(1, WIDTH)

    def ask(number: int) -> None:
        with Client(server.url, timeout=READY) as client:
            for turn in range(6):
                id = f"n{(number * 7 + turn) % 60:02}"
                (known,) = client.predict([id])
                assert known.probability == pytest.approx(expected[id].probability, abs=1e-6)
                (found,) = client.predict_new(x, [[id]])
                (alone,) = predictor.predict_new(x, [[id]])
                assert found.probability == pytest.approx(alone.probability, abs=1e-6)
                if number == 3:
                    with pytest.raises(InputError, match="nobody"):
                        client.predict_new(x, [["nobody"]])
                if number == 4:
                    many = client.predict_new(x.expand(50, -1), [[id]] * 50)
                    assert {each.label for each in many} == {alone.label}

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    text = urlopen(f"{server.url}/metrics").read().decode()
    rows = dict(re.findall(r'^tuneup_batch_rows_bucket\{le="([\d.]+)"\} ([\d.]+)', text, re.M))
    count = re.search(r"^tuneup_batch_rows_count ([\d.]+)", text, re.M)
    assert float(rows["1.0"]) < float(count[1])  # some were computed together
    assert 'tuneup_request_seconds_bucket{degree="3-10",le="0.05",route="/predict"}' in text
    assert re.search(
        r'tuneup_model\{name="toy",task="node-classification",version="\w{12}"\} 1', text
    )
    assert float(re.search(r"tuneup_memory_bytes(?:\{.*\})? ([\d.e+]+)", text)[1]) > 1e7


@pytest.mark.parametrize("case", MALFORMED, ids=lambda case: case.name)
def test_a_malformed_request_is_refused_in_json(server, case):
    status, found = post(server, case.path, case.body, case.kind)
    assert status == case.status
    assert {*found} == {"error", "code"}
    assert case.words in found["error"]
    assert "Traceback" not in found["error"]


def test_what_is_not_http_or_half_sent_harms_nobody(server):
    half = b'POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n{"ids": ["n'
    raw(server, b"\x16\x03\x01 nonsense\r\n\r\n", 2)
    open_ones = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(20)]
    for made in open_ones:
        made.sendall(half)
    began = time.perf_counter()
    assert server.client.predict(["n01"])[0].degree
    assert time.perf_counter() - began < 5  # not the 20 seconds that a slow body may take
    for made in open_ones:
        made.close()
    chunk = b"POST /predict HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    found = raw(server, chunk + b"5000\r\n" + b"a" * 0x5000 + b"\r\n0\r\n\r\n")
    assert b" 413 " in found.split(b"\r\n")[0]
    status, body = post(server, "/nodes", b'{"node": {"id": "x"}}')
    assert status == 409
    assert "--live" in body["error"]
    assert server.client.predict(["n01"])


def test_the_description_has_examples_that_work(server):
    found = json.loads(urlopen(f"{server.url}/openapi.json").read())
    schemas = found["components"]["schemas"]
    assert {"/predict", "/predict/new", "/recommend", "/links", "/similar", "/nodes"} <= {
        *found["paths"]
    }
    for name, path in (("KnownNodes", "/predict"), ("Similar", "/similar")):
        for example in schemas[name]["examples"]:
            text = json.dumps(example).replace("n1", "n01").replace("n2", "n02")
            assert post(server, path, text.encode())[0] == 200
    text = json.dumps(found)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in schemas
    assert urlopen(f"{server.url}/healthz").status == 200
    page = urlopen(f"{server.url}/")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert not re.search(rb"https?://", page.read().replace(b"http://www.w3.org/2000/svg", b""))


def test_two_workers_a_token_and_one_graph(folder, tmp_path):
    """Whoever answers, it is from one graph; a worker that dies is replaced; SIGTERM ends all."""
    token = "a-token-of-some-length"
    arguments = (folder / "nodes", "--workers", 2, "--live", tmp_path / "graph.db")
    with running(*arguments, token=token) as server:
        for wrong in ({}, {"Authorization": "Bearer a-token-of-some-lengtX"}):
            status, found = post(server, "/predict", b'{"id": "n01"}', **wrong)
            assert (status, found["code"]) == (401, "token")
        clients = [Client(server.url, token, timeout=READY) for _ in range(8)]
        for turn in range(12):
            adds, asks = clients[turn % 8], clients[(turn * 3 + 1) % 8]
            node = {"id": f"x{turn}", "features": [0.5] * WIDTH, "neighbours": ["n01"]}
            assert adds.add_nodes([node], key=f"k{turn}")["edges"] == 1
            with pytest.raises(InputError, match="already"):
                asks.add_nodes([node])
            assert asks.add_nodes([node], key=f"k{turn}")["nodes"] == 1  # a retry
            assert asks.predict([f"x{turn}"])[0].degree == 1
        counts = {client.predict(["n01"])[0].degree for client in clients}
        assert counts == {clients[0].predict(["n01"])[0].degree}
        assert clients[0].remove_edge("x3", "n01")["edges"] == 1
        assert clients[1].predict(["x3"])[0].degree == 0
        assert clients[2].remove_node("x4")["edges"] == 1
        with pytest.raises(InputError, match="'x4'"):
            clients[3].predict(["x4"])
        request = Request(f"{server.url}/metrics", headers={"Authorization": f"Bearer {token}"})
        pids: set[bytes] = set()
        end = time.monotonic() + READY
        while len(pids) < 2 and time.monotonic() < end:  # the second may still be loading
            pids |= {*re.findall(rb'tuneup_memory_bytes\{pid="(\d+)"', urlopen(request).read())}
            time.sleep(0.1)
        assert len(pids) == 2
        os.kill(int(pids.pop()), signal.SIGKILL)
        server.until("another is started")
        assert clients[5].wait(READY)
        (found,) = clients[6].predict(["x5"])
        assert found.degree == 1
        for client in clients:
            client.close()
        assert server.stop() == 0


def test_a_new_version_is_swapped_in_and_a_damaged_one_is_not(folder, tmp_path):
    """And SIGTERM lets a request that is under way finish."""
    place = tmp_path / "model"
    first, second = link_model(), link_model()
    with torch.no_grad():
        for weight in second.parameters():
            weight.mul_(1.1)
    save_artefact(place, first, small_graph(), ids=node_ids())
    with running(place, "--watch", 0.2, "--drain", 600) as server:
        client = server.client
        before, old = client.links(["n01"], 3)[0], client.version
        good = (place / "weights.safetensors").read_bytes()
        (place / "weights.safetensors").write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        server.until("The new version is refused")
        assert client.links(["n01"], 3)[0] == before
        assert "damaged" in client.request("GET", "/readyz")["refused"]
        save_artefact(place, second, small_graph(), ids=node_ids(), overwrite=True)
        end = time.monotonic() + READY
        while client.version == old:
            after = client.links(["n01"], 3)[0]
            assert time.monotonic() < end
        expected = Predictor.load(place).links(["n01"], 3)[0]
        assert after.scores == pytest.approx(expected.scores)
        assert after.scores != before.scores
        found: list[int] = []
        many = {"nodes": [{"features": [1.0] * WIDTH, "neighbours": ["n01"]}] * 1500, "k": 5}
        ask = threading.Thread(
            target=lambda: found.append(len(client.request("POST", "/links", many)["answers"]))
        )
        ask.start()
        while "\ntuneup_queue 1.0" not in urlopen(f"{server.url}/metrics").read().decode():
            assert ask.is_alive()
        server.process.terminate()
        ask.join(READY)
        assert found == [1500]
        assert server.process.wait(READY) == 0


def test_a_recommender_and_a_model_that_cannot_be_loaded(tmp_path):
    users, items = [f"u{n}" for n in range(20)], list(range(100, 130))
    predictor = Predictor(recommender("lightgcn"), small_pairs(), ids=users, items=items)
    predictor.save(tmp_path / "items")
    with running(tmp_path / "items", "--live", tmp_path / "graph.db") as server:
        client = server.client
        (ours,), (theirs,) = client.recommend(["u3"], 4), predictor.recommend(["u3"], 4)
        assert ours.candidates == theirs.candidates
        (ours,), (theirs,) = client.recommend_new([[103]], 4), predictor.recommend_new([[103]], 4)
        assert ours.scores == pytest.approx(theirs.scores, abs=1e-5)
        (best, *_) = client.recommend(["u3"], 4)[0].candidates
        assert client.add_interactions([("u3", best)])["edges"] == 1
        assert best not in client.recommend(["u3"], 4)[0].candidates
        with pytest.raises(InputError, match="recommend"):
            client.predict(["u3"])
        server.kill()
    (tmp_path / "items" / "users.parquet").unlink()
    from processes import Running

    server = Running(tmp_path / "items", wait=False)
    assert server.process.wait(READY) == 2
    server.close()
    assert "users.parquet is missing" in server.log
    assert "Traceback" not in server.log
