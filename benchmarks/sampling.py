"""Sampled edges per second, relabelling included, on a graph with power-law senders.

python -m benchmarks.sampling                       # 1 M nodes, 25 M directed edges
python -m benchmarks.sampling --nodes 100000        # as many edges a node
python -m benchmarks.sampling --other PYTHON        # DGL beside it, in an environment of its own

An environment for DGL: ``pip install 'numpy<2' 'pandas<2.3' torch==2.2.1 dgl==2.1.0
torchdata==0.7.1 pyyaml pydantic``.  Every line is one core's processor time; samplers take turns.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np
import torch

from tuneup.graph import Adjacency, DropEdge, Neighbours
from tuneup.graph.sampling import sample

FANOUTS = (15, 10, 5)
BATCH, BATCHES, ROUNDS = 1024, 10, 3

OTHER = """
import sys, time, numpy as np, torch, dgl
torch.set_num_threads(1)
folder, count, *fanouts = sys.argv[1:]
col, rowptr = (np.load(f"{folder}/{name}.npy") for name in ("col", "rowptr"))
index = torch.from_numpy(rowptr), torch.from_numpy(col), torch.empty(0, dtype=torch.long)
graph = dgl.graph(("csc", index), num_nodes=len(rowptr) - 1)
sampler = dgl.dataloading.NeighborSampler([int(f) for f in fanouts][::-1])
seeds = np.load(f"{folder}/seeds.npy")
print("ready", flush=True)
for line in sys.stdin:
    start, edges = time.process_time(), 0
    for part in seeds:
        blocks = sampler.sample_blocks(graph, torch.from_numpy(part))[2]
        edges += sum(block.num_edges() for block in blocks)
    print(edges / (time.process_time() - start), flush=True)
"""


def power_law(nodes: int, edges: int) -> Adjacency:
    """Uniform receivers; the k-th most popular sender has a share that falls like ``k^-0.6``."""
    generator = np.random.default_rng(0)
    names = generator.permutation(nodes)
    col = names[(nodes * generator.random(edges) ** 2.5).astype(np.int64)]
    rowptr = np.zeros(nodes + 1, np.int64)
    np.bincount(generator.integers(0, nodes, edges), minlength=nodes).cumsum(out=rowptr[1:])
    return Adjacency(torch.from_numpy(rowptr), torch.from_numpy(col), nodes, undirected=False)


def edges_of(source: Neighbours, seeds: torch.Tensor, key: int) -> int:
    """Edges of one batch."""
    return sample(source, seeds, FANOUTS, key).blocks[0].num_entries


def rate(source: Neighbours, seeds: list[torch.Tensor]) -> float:
    """Edges per second of processor time."""
    start = time.process_time()
    edges = sum(edges_of(source, part, key) for key, part in enumerate(seeds))
    return edges / (time.process_time() - start)


def speed_up(source: Neighbours, seeds: list[torch.Tensor]) -> float:
    """Of two threads over one, by the clock: it needs two cores that nobody else uses."""
    seconds = []
    for threads in (1, 2):
        with ThreadPoolExecutor(threads) as pool:
            start = time.perf_counter()
            list(pool.map(lambda part: edges_of(source, part, 0), seeds))
            seconds.append(time.perf_counter() - start)
    return seconds[0] / seconds[1]


def main() -> None:
    """Print a line for every sampler."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--other", help="the Python of an environment with DGL")
    options = parser.parse_args()
    torch.set_num_threads(1)
    graph = power_law(options.nodes, 25 * options.nodes)
    generator = torch.Generator().manual_seed(0)
    seeds = [torch.randperm(options.nodes, generator=generator)[:BATCH] for _ in range(BATCHES)]
    sources: dict[str, Neighbours] = {"no edge dropped": graph.neighbours}
    for alpha in (0.5, "graded"):
        sources[f"alpha {alpha}"] = DropEdge(alpha).view(graph, 0).neighbours
    for source in sources.values():
        rate(source, seeds[:1])  # compiles
    found: dict[str, list[float]] = {name: [] for name in sources}
    with tempfile.TemporaryDirectory() as folder:
        other = None
        if options.other:
            arrays = {"col": graph.col, "rowptr": graph.rowptr, "seeds": torch.stack(seeds)}
            for name, tensor in arrays.items():
                np.save(Path(folder) / f"{name}.npy", tensor.numpy())
            words = [options.other, "-c", OTHER, folder, str(BATCH), *map(str, FANOUTS)]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            other = subprocess.Popen(words, text=True, **pipes)  # type: ignore[call-overload]
            if other.stdout.readline().strip() != "ready":
                sys.exit("DGL did not start")
            found["DGL"] = []
        for _ in range(ROUNDS):
            for name, source in sources.items():
                found[name].append(rate(source, seeds))
            if other is not None:
                other.stdin.write("\n")
                other.stdin.flush()
                found["DGL"].append(float(other.stdout.readline()))
        if other is not None:
            other.communicate()
    print(f"{graph!r}, fan-outs {FANOUTS}, batches of {BATCH}, {ROUNDS} rounds")
    for name, rates in found.items():
        spread = f"{min(rates) / 1e6:.2f} to {max(rates) / 1e6:.2f}"
        ratio = f", {median(rates) / median(found['DGL']):.2f} times DGL" if options.other else ""
        print(f"{name}: {median(rates) / 1e6:.2f} M edges/s ({spread}){ratio}")
    for name, source in sources.items():
        print(f"two threads, {name}: {speed_up(source, seeds):.2f} times one")
    for name, source in sources.items():
        start = time.process_time()
        fields = [sample(source, part, FANOUTS, key) for key, part in enumerate(seeds)]
        middle = time.process_time()
        for field in fields:
            _ = field.blocks[0].degree
        share = (time.process_time() - middle) / (middle - start)
        print(f"degrees of all nodes, {name}: {share:.2f} of sampling")


if __name__ == "__main__":
    main()
