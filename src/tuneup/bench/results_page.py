"""RESULTS.md: what was really run, and whether the paper's claims hold in it; never typed in."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tuneup.data import DATASETS, Dataset, GraphSize
from tuneup.errors import InputError
from tuneup.files import write_atomic
from tuneup.report.table import markdown_table

from . import by_degree
from .blocks import every_block
from .claims import TASKS, above_base_table, claims_table, claims_words
from .conditions import conditions
from .figures import overview_name, write_overviews
from .gains import gains_table
from .presets import planned_blocks, table_methods
from .published import paper_alone, paper_blocks
from .records import without_shared
from .rendering import LEGEND, markdown, paper_part
from .shares import WORDS, shares_table
from .tables import Block

RESULTS = "benchmarks/results"
READING = """\
*Transductive* scores nodes of the graph that was trained on. *Inductive* scores new nodes, 5 % of \
all, which training never saw; *cold-30*, *cold-60* and *cold-90* score the same nodes after 30, \
60 and 90 % of their edges were removed. One trained model answers in all five. Node \
classification shows the accuracy, the other tasks recall@50: the share of a node's hidden \
neighbours that is among the 50 best of all candidates. There is one split of each dataset; seeds \
are training seeds.

*Base* is ordinary training, which is also stage 1 of *TuneUp*; stage 2 drops a share *alpha* of \
the edges anew in every step (synthetic tails), and in node classification learns from Base's \
predictions too (pseudo-labels). *DropEdge* drops edges from the start. *w/o curriculum* trains on \
the whole graph and on one with dropped edges at once, *w/o syn-tails* and *w/o pseudo-labels* \
leave out what they name. As in Algorithm 1, the result is stage 2's best epoch by transductive \
validation, also where Base validates better. Release 0.1 returned Base there, in 7 of TuneUp's \
runs and 15 of its ablations': their means are now those recorded of stage 2, and intervals leave \
these runs out, as their scores by node were not recorded. `tuneup methods` lists the others, with \
the values of their settings that were tried.

An interval is that of the difference of two methods on the same nodes and seeds: nodes are \
resampled, and it is widened by Student's t over the seeds."""


def graphs_table(blocks: Sequence[Block]) -> str:
    """The datasets of ours and of the paper's tables, as the catalogue has them."""
    ours = {block.dataset for block in blocks}
    paper = {block.dataset for block in paper_blocks(blocks)}
    lines = []
    for name, dataset in DATASETS.items():
        whose = ["ours"] * (name in ours) + ["the paper"] * (name in paper)
        if whose:
            lines.append([name, " and ".join(whose), str(dataset.size), _mean_degree(dataset)])
    heading = ["dataset", "in the tables of", "size", "edges of a node"]
    return markdown_table(heading, lines, words=(0, 1, 2))


def _mean_degree(dataset: Dataset) -> str:
    size = dataset.size
    if isinstance(size, GraphSize):
        return f"{2 * size.edges / size.nodes:.1f}"
    return f"{size.pairs / size.users:.1f} (users)"


def summary_table(blocks: Sequence[Block]) -> str:
    """What was run and what was not: methods, seeds, minutes of the runs shown."""
    lines = []
    spent: dict[Block, float] = defaultdict(float)
    shown = [(block, run) for block in blocks for own in block.records.values() for run in own]
    for (block, _), own in zip(shown, without_shared([run for _, run in shown]), strict=True):
        spent[block] += own.seconds
    for block in blocks:
        missing = [row.label for row in block.rows if not row.records]
        lines.append(
            [
                block.name,
                f"{len(block.rows) - len(missing)} of {len(block.rows)}",
                f"{len(block.seeds)}",
                ", ".join(missing),
                f"{spent[block] / 60:.0f}",
            ]
        )
    known = {(block.task, block.dataset, block.architecture) for block in blocks}
    for task, dataset, architecture in planned_blocks():
        if (task, dataset, architecture) not in known:
            rows = len(table_methods(task, architecture))
            lines.append([f"{dataset}, {task}, {architecture}", f"0 of {rows}", "0", "all", ""])
    heading = ["dataset, task, architecture", "rows run", "seeds", "not run", "minutes"]
    return markdown_table(heading, lines, words=(0, 3))


def _provenance(blocks: Sequence[Block]) -> str:
    """How many records say what code they were made with."""
    records = [record for block in blocks for own in block.records.values() for record in own]
    old = sum("revision" not in record.versions for record in records)
    known = f"Of {len(records)} records, {len(records) - old} name the revision of the code"
    return f"{known}, {old} were made outside of a checkout." if old else f"{known}."


def results_page(
    blocks: Sequence[Block], discussion: str, figures: Sequence[str] = (), results: str = RESULTS
) -> str:
    """The whole page.

    Args:
        blocks: what is recorded.
        discussion: what we think of it, in Markdown: the only part that is written by hand.
        results: the folder of the records, as the page names it.
        figures: those of :func:`~tuneup.bench.figures.write_overviews`, as the page names them.
    """
    return "\n\n".join(_parts(blocks, discussion, figures, results)) + "\n"


def _parts(
    blocks: Sequence[Block], discussion: str, figures: Sequence[str], results: str
) -> Iterator[str]:
    yield "# Results"
    yield (
        f"Generated by `tuneup bench results` from the records under `{results}`: nothing here was "
        "typed in but the discussion. A row that says *not run* was not run. Any row is "
        "made anew by the command above its table with `--method` and `--fresh`. A row that goes "
        "on from Base is refused where Base comes out otherwise, as it may on another kind of "
        "processor: name `--method base` too, or another `--results`. "
        "`tuneup bench show` prints the tables in other forms, `tuneup bench figures` draws them."
    )
    yield "## What was run"
    yield summary_table(blocks)
    yield (
        "Minutes are those of the runs in the tables on one core, a first stage that several rows "
        f"share counted once; trials and evaluation come on top. {_provenance(blocks)}"
    )
    yield "## How to read this page"
    yield READING
    yield graphs_table(blocks)
    yield "Edges are those of the whole graph, before any were set aside."
    yield "## The paper's claims in our records"
    yield claims_table(blocks)
    yield claims_words(blocks)
    yield (
        "The paper says that TuneUp is the only method that is consistently above Base. How often "
        "the others are:"
    )
    yield above_base_table(blocks)
    yield "## The size of the gains, beside the paper's"
    yield gains_table(blocks)
    yield (
        "The paper's are worked out from its means, as it prints them; those that it prints itself "
        "differ by 0.1 in places."
    )
    if shares := shares_table(blocks):
        yield WORDS
        yield shares
    if discussion:
        yield "## What we think of it"
        yield discussion.strip()
    for task, heading in TASKS.items():
        mine = [block for block in blocks if block.task == task]
        if mine:
            yield f"## {heading}"
            for path in figures:
                if Path(path).stem.startswith(overview_name(task)):
                    yield f"![{heading}: Base and TuneUp by degree of the node]({path})"
            if degrees := by_degree.degrees_table(mine):
                yield by_degree.WORDS
                yield degrees
            yield LEGEND
        for block in mine:
            yield f"### {block.short_name}"
            yield f"`{block.command}`. {conditions(block)}"
            yield markdown(block)
        yield from map(paper_part, paper_alone(mine))


def write_results(results: Path, discussion: Path | None, out: Path, figures: Path) -> None:
    """Draw the figures that the page shows, then write it, whole or not at all."""
    blocks = every_block(results)
    try:
        words = discussion.read_text() if discussion else ""
    except OSError as error:
        raise InputError(
            f"cannot read {discussion} ({error.strerror}): the page says what is thought of the "
            "results; name a Markdown file with --discussion."
        ) from error
    if not out.absolute().parent.is_dir():
        raise InputError(f"cannot write {out}: {out.parent} is no folder.")
    drawn = write_overviews(blocks, figures, (".png",))
    shown = [os.path.relpath(path, out.parent) for path in drawn]
    named = os.path.relpath(results, out.parent)
    write_atomic(out, results_page(blocks, words, shown, named))
