"""Theorem 1 of the paper, measured as the number of labels grows.

python -m benchmarks.theory           # train, and write docs/results/theory.md and its figure
python -m benchmarks.theory --quick   # one graph, few labels, printed

On each graph, Base and then the theorem's three second stages are trained with more and more labels
of the nodes that have many edges, and tested on nodes without any.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from tuneup.curriculum import Schedule
from tuneup.data import Graph, cold_start, load_dataset
from tuneup.data.splits import known_and_new
from tuneup.evaluation.theory import KINDS, Gap, measure_gaps
from tuneup.files import write_atomic
from tuneup.graph import adjacency_from
from tuneup.methods import METHODS, Setup, configured, run
from tuneup.nn import EncoderSpec
from tuneup.report.table import markdown_table
from tuneup.tasks import AllLabels
from tuneup.train import Checkpoints

ROWS = {"M1": "without-pseudo-labels", "M2": "tuneup", "M3": "without-syn-tails"}
LABELS = (50, 200, 800, 3200)
EPOCHS, WIDTH, DEGREE, ALPHA = 150, 32, 5, 1.0
"""Epochs of each stage, d, the fewest edges of a node of B, and the share of edges dropped: the
theorem's G~ has none."""
PAGE = Path(__file__).resolve().parents[1] / "docs/results/theory.md"


@dataclass(frozen=True, eq=False)
class Case:
    """A graph, its nodes without edges A, and its nodes with many B."""

    name: str
    graph: Graph
    zero: Tensor
    high: Tensor


def generated(pool: int = 30_000, classes: int = 2, seed: int = 0) -> Case:
    """The theorem's assumptions: A and B are drawn from one pool of features and labels.

    Nodes of B have about 30 edges, nine of ten to their own class; nodes of A have none.
    """
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (pool,), generator=generator)
    centres = torch.randn(classes, 16, generator=generator)
    x = 0.3 * centres[y] + torch.randn(pool, 16, generator=generator)
    zero, high = torch.arange(pool // 3), torch.arange(pool // 3, pool)
    sources = high.repeat_interleave(15)
    order = y[high].argsort(stable=True)
    sizes = torch.bincount(y[high], minlength=classes)
    first = sizes.cumsum(0) - sizes
    draw = torch.rand(len(sources), generator=generator)
    own = (first[y[sources]] + (draw * sizes[y[sources]]).long()).clamp(max=len(high) - 1)
    other = torch.randint(0, len(high), (len(sources),), generator=generator)
    inside = torch.rand(len(sources), generator=generator) < 0.9
    targets = high[torch.where(inside, order[own], other)]
    adjacency = adjacency_from(torch.stack([sources, targets]), pool, undirected=True)
    return Case("generated", Graph(adjacency, x, y, classes, "generated"), zero, high)


def real(name: str) -> Case:
    """A tenth of the nodes lose all their edges; B are the others that keep 5 or more."""
    whole = load_dataset(name)
    assert isinstance(whole, Graph)
    _, zero = known_and_new(whole.num_nodes, 0.1, 0)
    graph = whole.with_adjacency(cold_start(whole.adjacency, zero, 1.0, 0))
    high = (graph.adjacency.degree >= DEGREE).nonzero().view(-1)
    return Case(name, graph, zero, high)


def measure(case: Case, labels: int, seed: int = 0) -> list[Gap]:
    """Train Base and the three second stages with so many labels."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(case.high), generator=generator)
    labelled = case.high[order[:labels]].sort().values
    task = AllLabels(case.graph, labelled, labelled[:0])
    spec = EncoderSpec(
        case.graph.num_features, case.graph.num_classes, "sage", width=WIDTH, num_layers=2
    )
    schedule = Schedule(EPOCHS, lr=0.01, validate_every=EPOCHS)
    setup = Setup(task, spec, pretrain=schedule, finetune=schedule)
    store, seconds, first = Checkpoints(), {}, None
    for kind, name in ROWS.items():
        method = METHODS[name]
        chosen = {"alpha": ALPHA} if "alpha" in method.grid else {}
        settings = configured(method, chosen)
        result = run(method, setup, settings=settings, seed=seed, checkpoints=store)
        first, seconds[kind] = result.copy(0), result.copy(1)
    assert first is not None
    return measure_gaps(
        first,
        seconds,  # type: ignore[arg-type]
        case.graph,
        zero=case.zero,
        high=case.high,
        labelled=labelled,
        width=WIDTH,
    )


def rows_of(cases: Sequence[Case], labels: Sequence[int]) -> Iterator[tuple[str, int, Gap]]:
    """Every measurement, printed as it comes."""
    for case in cases:
        for count in labels:
            if count < len(case.high):
                for gap in measure(case, count):
                    print(
                        f"{case.name} {count} {gap.kind}: test {gap.test_error:.3f}, training "
                        f"{gap.training_error:.3f}, gap {gap.delta:+.3f}, bound "
                        f"{gap.bound.total:.2f}",
                        flush=True,
                    )
                    yield case.name, count, gap


def table(rows: Sequence[tuple[str, int, Gap]]) -> str:
    """A line for each graph and number of labels."""
    lines = []
    for name, count in dict.fromkeys((name, count) for name, count, _ in rows):
        own = {gap.kind: gap for graph, m, gap in rows if (graph, m) == (name, count)}
        m2, m3 = own["M2"].bound, own["M3"].bound
        lines.append(
            [
                name,
                f"{count:,}",
                *(f"{own[kind].test_error:.3f}" for kind in KINDS),
                *(f"{own[kind].delta:+.3f}" for kind in KINDS),
                f"{m2.q:.3f}",
                f"{m3.tau:+.3f}",
                f"{m2.g:.2f}",
                *(f"{own[kind].bound.total:.2f}" for kind in KINDS),
            ]
        )
    head = ["graph", "m", *(f"error {k}" for k in KINDS), *(f"gap {k}" for k in KINDS)]
    return markdown_table([*head, "Q", "tau", "G", *(f"bound {k}" for k in KINDS)], lines)


def figure(rows: Sequence[tuple[str, int, Gap]], path: Path) -> None:
    """Measured gaps and bounds by the number of labels, a panel a graph."""
    from matplotlib import pyplot

    names = list(dict.fromkeys(name for name, _, _ in rows))
    made, axes = pyplot.subplots(
        1, len(names), figsize=(4 * len(names), 3.4), sharey=True, squeeze=False
    )
    for axis, name in zip(axes[0], names, strict=True):
        for kind, colour in zip(KINDS, ("tab:blue", "tab:orange", "tab:green"), strict=True):
            own = [(m, gap) for graph, m, gap in rows if graph == name and gap.kind == kind]
            counts = [m for m, _ in own]
            axis.plot(counts, [g.delta for _, g in own], "o-", color=colour, label=f"{kind}, gap")
            bounds = [g.bound.total for _, g in own]
            axis.plot(counts, bounds, "--", color=colour, label=f"{kind}, bound")
        axis.axhline(1.0, color="grey", linewidth=0.8)
        axis.set(title=name, xlabel="labels m", xscale="log", yscale="symlog")
    axes[0][0].set_ylabel("gap between error rates")
    axes[0][-1].legend(fontsize=7)
    made.tight_layout()
    made.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one graph, few labels, printed")
    quick = parser.parse_args(arguments).quick
    if quick:
        print(table(list(rows_of([generated(3000)], LABELS[:2]))))
        return
    rows = list(rows_of([generated(), real("dblp"), real("CS")], LABELS))
    figure(rows, PAGE.with_suffix(".png"))
    head, _, _ = PAGE.read_text().partition(MARK)
    write_atomic(PAGE, f"{head}{MARK}\n\n{table(rows)}\n")


MARK = "<!-- Below: written by python -m benchmarks.theory. -->"

if __name__ == "__main__":
    main()
