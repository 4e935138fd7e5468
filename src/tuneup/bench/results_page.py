"""RESULTS.md: what was really run, and whether the paper's claims hold in it; never typed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tuneup.files import write_atomic

from .rendering import LEGEND, markdown
from .tables import Block, Row

Test = Callable[[Block, dict[str, Row], str], bool | None]
"""Whether a claim holds in a block's setting: yes, no, or (``None``) it cannot be told there."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper that a cell of a table can agree or disagree with."""

    text: str
    holds: Test


def _over_base(block: Block, rows: dict[str, Row], setting: str) -> bool | None:
    gain = rows["tuneup"].cells[setting].over_base
    return gain.absolute > 0 if gain else None


def _clearly_over_base(block: Block, rows: dict[str, Row], setting: str) -> bool | None:
    gain = rows["tuneup"].cells[setting].over_base
    return gain.low > 0 if gain else None


def _colder_is_more(block: Block, rows: dict[str, Row], setting: str) -> bool | None:
    order = [name for name in block.settings if name == "inductive" or name.startswith("cold")]
    if setting not in order[1:]:
        return None
    before = order[order.index(setting) - 1]
    gains = [rows["tuneup"].cells[name].over_base for name in (before, setting)]
    if gains[0] is None or gains[1] is None:
        return None
    return gains[1].relative > gains[0].relative


def _above(name: str) -> Test:
    def holds(block: Block, rows: dict[str, Row], setting: str) -> bool | None:
        gain = rows[name].cells[setting].under_tuneup if name in rows else None
        return gain.absolute > 0 if gain else None  # on the seeds that both have

    return holds


def _curriculum_is_needed(block: Block, rows: dict[str, Row], setting: str) -> bool | None:
    """The row without curriculum lies nearer to DropEdge than to TuneUp."""
    if "without-curriculum" not in rows or "dropedge" not in rows:
        return None
    drop = block.gain("without-curriculum", "dropedge", setting)
    tuneup = rows["without-curriculum"].cells[setting].under_tuneup
    if drop is None or tuneup is None:
        return None
    return abs(drop.absolute) < abs(tuneup.absolute)  # each on the seeds that both have


CLAIMS = (
    Claim("TuneUp's mean is above Base's", _over_base),
    Claim("... and the paired 95 % interval of the gain leaves 0 out", _clearly_over_base),
    Claim("the colder, the larger the relative gain (against the setting before)", _colder_is_more),
    Claim("TuneUp is above DropEdge", _above("dropedge")),
    Claim("TuneUp is above its form without curriculum", _above("without-curriculum")),
    Claim("TuneUp is above its form without synthetic tails", _above("without-syn-tails")),
    Claim("TuneUp is above its form without pseudo-labels", _above("without-pseudo-labels")),
    Claim("without curriculum it is nearer to DropEdge than to TuneUp", _curriculum_is_needed),
    Claim("TuneUp is above LocalAug", _above("localaug")),
    Claim("TuneUp is above ColdBrew", _above("coldbrew")),
    Claim("TuneUp is above GraphLessNN", _above("graphlessnn")),
    Claim("TuneUp is above Tail-GNN", _above("tail-gnn")),
    Claim("TuneUp is above RAWLS-GCN", _above("rawls-gcn")),
)

TITLES = {
    "node-classification": "Node classification",
    "link-prediction": "Link prediction",
    "recommendation": "Recommendation",
}


def claims_table(blocks: Sequence[Block]) -> str:
    """In how many cells of each task a claim holds."""
    tasks = [task for task in TITLES if any(block.task == task for block in blocks)]
    lines = [
        [
            "claim: holds in how many cells (dataset x architecture x setting)",
            *(TITLES[task] for task in tasks),
        ],
        [":--", *["--:"] * len(tasks)],
    ]
    for claim in CLAIMS:
        told = [_count(claim, [block for block in blocks if block.task == task]) for task in tasks]
        if any(told):
            lines.append([claim.text, *told])
    return "\n".join(f"| {' | '.join(str(cell) for cell in line)} |" for line in lines)


def _count(claim: Claim, blocks: Sequence[Block]) -> str:
    found = [
        claim.holds(block, rows, setting)
        for block in blocks
        if "tuneup" in (rows := {row.method: row for row in block.rows if row.cells})
        for setting in block.settings
    ]
    known = [answer for answer in found if answer is not None]
    return f"{sum(known)} of {len(known)}" if known else ""


def summary_table(blocks: Sequence[Block]) -> str:
    """What was run: methods, seeds, hours."""
    lines = [
        ["dataset, task, architecture", "rows run", "seeds of Base", "not run", "training hours"],
        [":--", "--:", "--:", ":--", "--:"],
    ]
    for block in blocks:
        missing = [row.title for row in block.rows if not row.records]
        hours = sum(r.seconds for own in block.records.values() for r in own) / 3600
        lines.append(
            [
                f"{block.dataset}, {block.task}, {block.architecture}",
                f"{len(block.rows) - len(missing)} of {len(block.rows)}",
                f"{block.seeds}",
                ", ".join(missing),
                f"{hours:.1f}",
            ]
        )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def results_page(blocks: Sequence[Block], discussion: str) -> str:
    """The whole page.

    Args:
        blocks: what is recorded.
        discussion: what we think of it, in Markdown: the only part that is written by hand.
    """
    return "\n\n".join(_parts(blocks, discussion)) + "\n"


def _parts(blocks: Sequence[Block], discussion: str) -> Iterator[str]:
    yield "# Results"
    yield (
        "Generated by `tuneup bench results` from the records under `benchmarks/results`: nothing "
        "here was typed in but the discussion. A row that says *not run* was not run. Any row is "
        "made anew by the command above its table with `--method` and `--fresh`; "
        "`tuneup bench show` prints the tables in other forms, `tuneup bench figures` draws them."
    )
    yield "## What was run"
    yield summary_table(blocks)
    yield "## The paper's claims in our records"
    yield claims_table(blocks)
    yield "## What we think of it"
    yield discussion.strip()
    for task, title in TITLES.items():
        mine = [block for block in blocks if block.task == task]
        if mine:
            yield f"## {title}"
            yield LEGEND
        for block in mine:
            yield f"### {block.dataset}, {block.architecture}"
            yield f"`{block.command}`. {_conditions(block)}"
            yield markdown(block)


def _conditions(block: Block) -> str:
    """Schedules and what was shared, as the records say; deviations from the paper's budget."""
    config = block.records["base"][0].config
    first, second = config["pretrain"], config["finetune"]
    shared = {name: config[name] for name in ("dropout", "l2") if name in config}
    chosen = ", ".join(f"{name} {value:g}" for name, value in shared.items())
    return (
        f"Preset {block.preset}: at most {first['epochs']} + {second['epochs']} epochs; {chosen} "
        f"chosen on Base; {block.seeds} training seed{'s' * (block.seeds > 1)} (paper: 5)."
    )


def write_results(blocks: Sequence[Block], discussion: Path, out: Path) -> None:
    """Write the page, whole or not at all."""
    words = discussion.read_text() if discussion.exists() else "Nothing yet."
    write_atomic(out, results_page(blocks, words))
