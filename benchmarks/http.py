"""A server beside the same calls in process: what HTTP costs, and what survives.

python -m benchmarks.http                    # all parts; several minutes
python -m benchmarks.http latency kills      # some of them
python -m benchmarks.http --quick            # on a small graph, a few of everything

Both sides of a ratio are measured in turn in one run.  Clients are coroutines of this process and
share its two cores with the server.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import torch

from tuneup.data import block_graph
from tuneup.errors import TuneupError
from tuneup.nn import Encoder
from tuneup.serve import Predictor
from tuneup.server import Client, compact
from tuneup.server.client import ServerError

NODES, EDGES, FEATURES, CLASSES, WIDTH = 1_000_000, 5_000_000, 64, 16, 64
NEIGHBOURS, CLIENTS, TOGETHER = 10, 32, 32
WAIT = 600.0


@dataclass
class Run:
    """Where a benchmark is run.

    Args:
        folder: for models and databases.
        quick: whether a few of everything are enough.
        kills: moments at which a server is killed.
        additions: made meanwhile.
    """

    folder: Path
    quick: bool
    kills: int = 50
    additions: int = 10_000
    random: random.Random = field(default_factory=lambda: random.Random(0))

    @property
    def model(self) -> Path:
        """A saved model, untrained: its answers cost the same."""
        path = self.folder / "model"
        if not path.exists():
            nodes, edges = (20_000, 100_000) if self.quick else (NODES, EDGES)
            graph = block_graph(nodes, edges, CLASSES, FEATURES)
            torch.manual_seed(0)
            encoder = Encoder(FEATURES, CLASSES, width=WIDTH, num_layers=3)
            ids = [f"n{number}" for number in range(nodes)]
            Predictor(encoder, graph, ids=ids).save(path)
        return path

    @property
    def small(self) -> Path:
        """A model that starts quickly."""
        path = self.folder / "small"
        if not path.exists():
            graph = block_graph(2_000, 8_000, 4, 8)
            torch.manual_seed(0)
            encoder = Encoder(8, 4, width=16, num_layers=2, architecture="gcn")
            ids = [f"n{number}" for number in range(2_000)]
            Predictor(encoder, graph, ids=ids).save(path)
        return path

    def node(self, nodes: int, width: int) -> dict[str, Any]:
        """A new node with ten edges."""
        chosen = self.random.sample(range(nodes), NEIGHBOURS)
        x = [round(self.random.gauss(0, 1), 3) for _ in range(width)]
        return {"features": x, "neighbours": [f"n{each}" for each in chosen]}


class Server:
    """A server process on loopback."""

    def __init__(self, *arguments: object) -> None:
        self.began = time.perf_counter()
        command = [sys.executable, "-m", "tuneup", "serve", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert self.process.stderr is not None
        line = self.process.stderr.readline().decode()
        found = re.search(r"http://[\d.:]+", line)
        assert found, line
        self.log: list[str] = []
        threading.Thread(target=self._drain, daemon=True).start()
        self.url, self.port = found[0], int(found[0].rpartition(":")[2])
        self.client = Client(self.url, timeout=WAIT)
        self.client.wait(WAIT)
        self.ready = time.perf_counter() - self.began

    def _drain(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line.decode(errors="replace"))

    @property
    def memory(self) -> float:
        """Resident megabytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    @property
    def processor(self) -> float:
        """Milliseconds of processor time so far: these do not depend on what else runs."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return 1000 * (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End it without a word; the processes that it has started end with it."""
        self.process.kill()
        self.process.wait()


@contextmanager
def serving(*arguments: object) -> Iterator[Server]:
    """A server that is gone at the end."""
    server = Server(*arguments)
    try:
        yield server
    finally:
        server.kill()


def start(run: Run) -> dict[str, Any]:
    """From the start of the process to ready, beside reading the model's bytes once."""
    files = [path for path in run.model.iterdir() if path.is_file()]
    began = time.perf_counter()
    for path in files:
        with path.open("rb") as file:
            while file.read(1 << 20):
                pass
    reading = time.perf_counter() - began
    began = time.perf_counter()
    Predictor.load(run.model).predict(["n0"])
    loading = time.perf_counter() - began
    with serving(run.model) as server:
        return {
            "megabytes": sum(path.stat().st_size for path in files) / 1e6,
            "reading, s": reading,
            "load and first answer in process, s": loading,
            "start to ready, s": server.ready,
            "ratio to reading": server.ready / reading,
        }


def latency(run: Run) -> dict[str, Any]:
    """One new node with ten edges, over HTTP and in process, in turn."""
    predictor = Predictor.load(run.model)
    count, nodes = 100 if run.quick else 500, len(predictor.ids)
    torch.set_num_threads(1)
    own: list[float] = []
    over: list[float] = []
    spent = 0.0
    with serving(run.model) as server:
        for turn in range(count + 20):
            if turn == 20:
                before = server.processor
            node = run.node(nodes, FEATURES)
            x, lists = torch.tensor([node["features"]]), [node["neighbours"]]
            ways: list[tuple[list[float], Callable[[], object]]] = [
                (own, lambda x=x, lists=lists: predictor.predict_new(x, lists)[0]),  # type: ignore[misc]
                (over, lambda n=node: server.client.request("POST", "/predict/new", {"node": n})),  # type: ignore[misc]
            ]
            for times, work in ways if turn % 2 else reversed(ways):
                began, busy = time.perf_counter(), time.process_time()
                work()
                if turn >= 20:
                    times.append(1000 * (time.perf_counter() - began))
                    spent += 1000 * (time.process_time() - busy) if times is own else 0
        served = (server.processor - before) / count
    return {
        "in process, median ms": statistics.median(own),
        "over HTTP, median ms": statistics.median(over),
        "difference, ms": statistics.median(over) - statistics.median(own),
        "in process, processor ms": spent / count,
        "server, processor ms": served,
    }


def throughput(run: Run) -> dict[str, Any]:
    """Answers a second with 32 clients, beside batches of 32 in process; and slow answers."""
    predictor = Predictor.load(run.model)
    nodes, seconds = len(predictor.ids), 5.0 if run.quick else 60.0
    torch.set_num_threads(1)
    asked = [run.node(nodes, FEATURES) for _ in range(2_000)]
    bodies = [json.dumps({"node": node}).encode() for node in asked]

    spent = [0.0, 0.0]

    def in_process() -> float:
        began, busy, done = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - began < seconds / 10:
            part = run.random.sample(asked, TOGETHER)
            x = torch.tensor([node["features"] for node in part])
            predictor.predict_new(x, [node["neighbours"] for node in part])
            done += TOGETHER
        spent[0] += 1000 * (time.process_time() - busy)
        spent[1] += done
        return done / (time.perf_counter() - began)

    with serving(run.model) as server:
        asyncio.run(_load(server.port, bodies, seconds / 10))
        before, busy = in_process(), server.processor
        times = asyncio.run(_load(server.port, bodies, seconds))
        served = (server.processor - busy) / len(times)
        after = in_process()
    own, over = (before + after) / 2, len(times) / seconds
    middle, slow = statistics.median(times), statistics.quantiles(times, n=100)[-1]
    return {
        "in process, answers/s": own,
        "32 clients, answers/s": over,
        "share": over / own,
        "in process, processor ms an answer": spent[0] / spent[1],
        "server, processor ms an answer": served,
        "median ms": 1000 * middle,
        "p99 ms": 1000 * slow,
        "p99 to median": slow / middle,
        "requests": len(times),
    }


def memory(run: Run) -> dict[str, Any]:
    """Resident memory after the first tenth of many requests, and after all."""
    count = 2_000 if run.quick else 100_000
    asked = [run.node(2_000, 8) for _ in range(500)]
    bodies = [json.dumps({"node": node}).encode() for node in asked]
    with serving(run.small) as server:
        asyncio.run(_load(server.port, bodies, WAIT, count // 10))
        before = server.memory
        asyncio.run(_load(server.port, bodies, WAIT * 10, count - count // 10))
        after = server.memory
    return {"requests": count, "MB after a tenth": before, "MB after all": after}


def workers(run: Run) -> dict[str, Any]:
    """What a second process adds to the memory of the first: the files are mapped once."""
    found: dict[str, Any] = {}
    for count in (1, 2, 3):
        with serving(run.model, "--workers", count) as server:
            asked = [json.dumps({"node": run.node(20_000, FEATURES)}).encode() for _ in range(200)]
            while count > 1 and _reporting(server.url) < count:
                time.sleep(0.5)
            asyncio.run(_load(server.port, asked, 5.0))
            top = server.process.pid
            children = Path(f"/proc/{top}/task/{top}/children").read_text().split()
            total = sum(map(_proportional, [str(top), *children]))
        found[f"{count} workers, MB in all"] = total
    return found


def _reporting(url: str) -> int:
    """Processes that are loaded."""
    with urlopen(f"{url}/metrics") as answer:
        return len({*re.findall(rb'tuneup_memory_bytes\{pid="(\d+)"', answer.read())})


def _proportional(pid: str) -> float:
    """Megabytes of a process, of which a page that n processes share counts 1/n."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.findall(r"^Pss: +(\d+)", text, re.M)[0]) / 1000


def additions(run: Run) -> dict[str, Any]:
    """Nodes with two edges posted one by one, and bare commits of SQLite in turn with them."""
    count = 200 if run.quick else 2_000
    times, bare = [], []
    database = sqlite3.connect(run.folder / "bare.db", isolation_level=None)
    for setting in ("journal_mode=WAL", "synchronous=FULL"):
        database.execute(f"PRAGMA {setting}")
    database.execute("CREATE TABLE rows (number INTEGER PRIMARY KEY, row TEXT)")
    with serving(run.model, "--live", run.folder / "additions.db") as server:
        nodes = server.client.model()["nodes"]
        busy = server.processor
        for number in range(count):
            node = {**run.node(nodes, FEATURES), "id": f"x{number}"}
            node["neighbours"] = node["neighbours"][:2]
            began = time.perf_counter()
            server.client.add_nodes([node])
            times.append(1000 * (time.perf_counter() - began))
            began = time.perf_counter()
            database.execute("INSERT INTO rows (row) VALUES (?)", (json.dumps(node),))
            bare.append(1000 * (time.perf_counter() - began))
        busy = (server.processor - busy) / count
    database.close()
    return {
        "additions": count,
        "median ms": statistics.median(times),
        "longest ms": max(times),
        "a bare commit, median ms": statistics.median(bare),
        "server, processor ms": busy,
    }


def kills(run: Run) -> dict[str, Any]:
    """Additions from several clients, the server killed at random moments: none lost or doubled."""
    moments, count = (3, 300) if run.quick else (run.kills, run.additions)
    database, out = run.folder / "kills.db", run.folder / "kills"
    acknowledged: set[str] = set()
    waiting = [f"x{number}" for number in range(count)]
    lock, replayed = threading.Lock(), [0]

    def add(url: str, stop: threading.Event) -> None:
        with Client(url, timeout=20) as client:
            while not stop.is_set():
                with lock:
                    if not waiting:
                        return
                    name = waiting.pop()
                seed = random.Random(name)
                node = {
                    "id": name,
                    "features": [seed.random() for _ in range(8)],
                    "neighbours": [f"n{each}" for each in seed.sample(range(2_000), 3)],
                }
                try:
                    client.add_nodes([node], key=name)
                except (ServerError, TuneupError, OSError):
                    with lock:
                        waiting.append(name)  # asked again with its key: done once
                        replayed[0] += 1
                    time.sleep(0.01)
                else:
                    with lock:
                        acknowledged.add(name)

    killed = lost = 0
    while waiting or killed < moments:
        server, stop = Server(run.small, "--live", database), threading.Event()
        lost += _missing(server.client, acknowledged)
        threads = [threading.Thread(target=add, args=(server.url, stop)) for _ in range(4)]
        for thread in threads:
            thread.start()
        if killed < moments:
            wanted = len(acknowledged) + count // (moments + 1)
            end = time.monotonic() + WAIT
            while len(acknowledged) < min(wanted, count) and time.monotonic() < end:
                time.sleep(0.002)
            time.sleep(run.random.random() * 0.02)
            server.kill()
            killed += 1
            stop.set()
        for thread in threads:
            thread.join()
        if server.process.poll() is None:
            lost += _missing(server.client, acknowledged)
            server.kill()
    compact(run.small, database, out)
    predictor, built = Predictor.load(out), 2_000 + count
    with serving(run.small, "--live", database) as server:
        some = run.random.sample(sorted(acknowledged), 200)
        ours, scratch = server.client.predict(some), predictor.predict(some)
        gap = max(
            abs(one.probability - two.probability)
            for one, two in zip(ours, scratch, strict=True)
            if one.label == two.label
        )
        degrees = all(a.degree == b.degree for a, b in zip(ours, scratch, strict=True))
    return {
        "kills": killed,
        "acknowledged": len(acknowledged),
        "sent again": replayed[0],
        "lost": lost,
        "doubled": len(predictor.ids) - built,
        "largest difference to a graph built from scratch": gap,
        "degrees equal": degrees,
    }


def _missing(client: Client, names: set[str]) -> int:
    """How many of these nodes the server does not know."""
    listed = sorted(names)
    parts = [listed[start : start + 5_000] for start in range(0, len(listed), 5_000)]
    return sum(len(part) - len(client.predict(part, on_unknown="skip")) for part in parts)


def malformed(run: Run) -> dict[str, Any]:
    """Mutilated requests and slow clients, and how long a good client waits meanwhile."""
    count = 100 if run.quick else 1_000
    codes: dict[str, int] = {}
    alone: list[float] = []
    beside: list[float] = []
    with serving(run.small) as server:
        node = run.node(2_000, 8)

        def good(times: list[float]) -> None:
            began = time.perf_counter()
            server.client.request("POST", "/predict/new", {"node": node})
            times.append(1000 * (time.perf_counter() - began))

        for _ in range(100):
            good(alone)

        async def attack() -> None:
            for number in range(count):
                status = await _mutilated(server.port, run.random, node)
                codes[status] = codes.get(status, 0) + 1
                if number % 10 == 0:
                    await asyncio.to_thread(good, beside)

        asyncio.run(attack())
        text = "".join(server.log)
    return {
        "requests": count,
        "status": dict(sorted(codes.items())),
        "500": codes.get("500", 0),
        "tracebacks": text.count("Traceback"),
        "good client alone, median ms": statistics.median(alone),
        "good client meanwhile, median ms": statistics.median(beside),
        "good client meanwhile, longest ms": max(beside),
    }


def schemas(run: Run) -> dict[str, Any]:
    """Requests that schemathesis makes of our own description."""
    with serving(run.small, "--live", run.folder / "schemas.db") as server:
        examples = "5" if run.quick else "50"
        command = [
            *(sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json"),
            *("--checks", "not_a_server_error,content_type_conformance,status_code_conformance"),
            *("--max-examples", examples, "--no-color"),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        text = "".join(server.log)
    return {
        "exit code": done.returncode,
        "last lines": done.stdout.splitlines()[-12:] or done.stderr.splitlines()[-3:],
        "tracebacks": text.count("Traceback"),
    }


async def _load(port: int, bodies: list[bytes], seconds: float, most: int = 1 << 60) -> list[float]:
    """Seconds of each answer that 32 clients got, each asking again as soon as it is answered."""
    times: list[float] = []
    end, left = time.perf_counter() + seconds, [most]

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        at = number
        while time.perf_counter() < end and left[0] > 0:
            left[0] -= 1
            at += CLIENTS
            began = time.perf_counter()
            writer.write(_request("/predict/new", bodies[at % len(bodies)]))
            status, _ = await _answer(reader)
            assert status == "200", status
            times.append(time.perf_counter() - began)
        writer.close()

    await asyncio.gather(*map(client, range(CLIENTS)))
    return times


def _request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _answer(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    body = await reader.readexactly(int(length[1])) if length else b""
    return head.split(b" ", 2)[1].decode(), body


_ODD = (
    *(b"NaN", b"1e999", b"-1", b"null", b"true", b'"\\ud800"', b"[]", b"{}", b"9" * 400),
    *(b"[" * 2_000, b"\xff\xfe", b'"' + b"x" * 5_000 + b'"', b"0.5", b"", b"\x00", b"'"),
)


async def _mutilated(port: int, rng: random.Random, node: dict[str, Any]) -> str:
    """The status of a request with something wrong in it, or how it ended."""
    path = rng.choice(
        ["/predict", "/predict/new", "/similar", "/what-if", "/links", "/nodes", "/x"]
    )
    good = {"/predict/new": {"node": node}}.get(path, {"id": "n1"})
    body = bytearray(json.dumps(good).encode())
    way = rng.randrange(5)
    if way == 0:  # a value is another
        text = bytes(body)
        found = [m.span() for m in re.finditer(rb'-?\d+\.?\d*|"n\d+"', text)]
        start, stop = rng.choice(found)
        body = bytearray(text[:start] + rng.choice(_ODD) + text[stop:])
    elif way == 1:  # bytes are others
        for _ in range(rng.randint(1, 8)):
            body[rng.randrange(len(body))] = rng.randrange(256)
    elif way == 2:
        body = body[: rng.randrange(len(body))]
    elif way == 3:
        body = bytearray(rng.choice(_ODD))
    request = _request(path, bytes(body))
    if way == 4:  # half of it, and then nothing
        request = request[: rng.randrange(1, len(request))]
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        patience = 0.05 if way == 4 else 20
        status, found_body = await asyncio.wait_for(_answer(reader), patience)
        if status != "200":
            assert {*json.loads(found_body)} >= {"error", "code"}
    except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
        status = "closed"
    except ValueError:
        status = f"{status}, no JSON"
    writer.close()
    return status


PARTS: dict[str, Callable[[Run], dict[str, Any]]] = {
    each.__name__: each
    for each in (start, latency, throughput, memory, workers, additions, kills, malformed, schemas)
}


def main() -> None:
    """Measure what is named, and print it."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.http",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="a small graph, a few of everything")
    parser.add_argument("--kills", type=int, default=50, help="moments to kill at")
    parser.add_argument("--additions", type=int, default=10_000, help="made meanwhile")
    options = parser.parse_args()
    unknown = set(options.names) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    with tempfile.TemporaryDirectory(prefix="tuneup-http-") as folder:
        run = Run(Path(folder), options.quick, options.kills, options.additions)
        for name in options.names or PARTS:
            load = os.getloadavg()[0]
            found = PARTS[name](run)
            print(f"{name} (load {load:.1f})", flush=True)
            for key, value in found.items():
                print(f"  {key}: {value:.3f}" if isinstance(value, float) else f"  {key}: {value}")


if __name__ == "__main__":
    main()
