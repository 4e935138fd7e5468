"""Layouts of blocks as tables, and one renderer: terminal, Markdown and LaTeX.

CSV is :func:`~tuneup.bench.tables.long_table`, one row a cell, for scripts.
"""

from __future__ import annotations

import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable

from tuneup.curriculum import MODEL
from tuneup.evaluation import MISSING, Gain
from tuneup.files import write_atomic
from tuneup.methods import in_order, title_of
from tuneup.report.table import markdown_table
from tuneup.tasks import VALIDATION_SOURCES

from .presets import LINKS, METRICS, check_name, rules_for
from .store import Store
from .studies import Request, requested_blocks
from .tables import PAPER_SEEDS, Block, RunBlock, long_table, paper_block, paper_blocks

FORMS = ("terminal", "markdown", "latex", "csv")
GAIN_ROW = "TuneUp over Base, %"
PAPER_COLUMN = "paper, "
WORSE, BETTER = "\N{DAGGER}", "\N{DOUBLE DAGGER}"
LEGEND = (
    "Mean ± standard deviation over training seeds, in %; bold: the best of a column, of the rows "
    f"that have all seeds. {WORSE}: TuneUp is better, {BETTER}: the method is better than "
    "TuneUp, where the 95 % interval of the paired difference over nodes and seeds (over nodes "
    "alone where there is one seed) does not contain 0. Trials: trainings by whose validation a "
    "method's settings were chosen (points of its grid that they cover, of how many), 0 where "
    "there is nothing to choose; Base chooses what all rows share. One training that is read in "
    "several ways counts once for each."
)
PAIRED_LEGEND = (
    "TuneUp minus the method in points, with the 95 % interval of the paired difference over nodes "
    "and seeds, and the p-value of a sign-flip test over nodes."
)
_BOLD = "\0"
"""Before and after the text of a bold cell."""
_LATEX = str.maketrans(
    {
        WORSE: r"$^\dagger$",
        BETTER: r"$^\ddagger$",
        MISSING: "--",
        "±": r"$\pm$",
        "<": r"$<$",
        ">": r"$>$",
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        **{mark: rf"\{mark}" for mark in "%_&#${}"},
    }
)
_NARROW = {"transductive": "transd.", "inductive": "induct.", " ± ": "±", "TuneUp w/o": "w/o"}


@dataclass(frozen=True)
class Table:
    """A table in no format yet.

    Args:
        title: one line.
        heading: names of the columns.
        rows: cells as text.
        words: columns on the left that are words.
        above: what it was made under.
        below: how to read it.
    """

    title: str
    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    above: str = ""
    below: str = ""


def signed(share: float) -> str:
    """In %, with its sign, which is no minus for 0; missing where it is no number."""
    return MISSING if math.isnan(share) else f"{round(100 * share, 1) + 0.0:+.1f}"


def interval(gain: Gain) -> str:
    """``+1.23 (+0.31, +2.15)`` in points."""
    absolute, low, high = (100 * value for value in (gain.absolute, gain.low, gain.high))
    return f"{absolute:+.2f} ({low:+.2f}, {high:+.2f})"


def block_table(block: Block, choices: bool = True) -> Table:
    """Methods by settings: ours, and the paper's numbers of the same cells.

    Args:
        block: ours, or the paper's alone.
        choices: whether what was chosen has columns; otherwise it is listed below.
    """
    best, ours = _best(block), isinstance(block, RunBlock)
    paper = paper_block(block.task, block.dataset, block.architecture)
    beside = [name for name in block.settings if ours and paper.score("base", name)]
    facts = {"chosen": block.chosen, "trials": block.tried} if ours and choices else {}
    rows = [
        [
            block.label(method),
            *(fact(method) for fact in facts.values()),
            *(_cell(block, method, name, best) for name in block.settings),
            *(_cell(paper, method, name) for name in beside),
        ]
        for method in block.methods
    ]
    gains = [_gain_cell(block, name) for name in block.settings]
    if any(cell not in ("", MISSING) for cell in gains):
        theirs = [_gain_cell(paper, name) for name in beside]
        rows.append([GAIN_ROW, *("" for _ in facts), *gains, *theirs])
    heading = [f"{block.metric}, %", *facts, *block.settings]
    heading += [f"{PAPER_COLUMN}{name}" for name in beside]
    if not isinstance(block, RunBlock):
        return Table(f"The paper's {block.name}", heading, rows)
    listing = [f"{title_of(m)}: {point}" for m in block.methods if (point := block.chosen(m))]
    below = f"Chosen on validation: {'; '.join(listing)}." if listing and not choices else ""
    above = f"`{block.command}`. {' '.join(conditions(block))}"
    return Table(block.name, heading, rows, 1 + choices, above, below)


def grid_tables(blocks: Sequence[Block]) -> Iterator[Table]:
    """A table of the paper as it stands there, one for each task: methods by graphs."""
    for task in dict.fromkeys(block.task for block in blocks):
        mine = [block for block in blocks if block.task == task]
        graphs: dict[tuple[str, str], Block] = {}
        for block in mine:  # those of other architectures have the same columns
            graphs.setdefault((block.whose, block.dataset), block)
        heading = [f"{METRICS[task]}, %"]
        for (whose, dataset), first in graphs.items():
            prefix = PAPER_COLUMN if whose == "paper" else ""
            heading += [f"{prefix}{dataset}, {name}" for name in first.settings]
        architectures = list(dict.fromkeys(block.architecture for block in mine))
        rows = []
        for architecture in architectures:
            own = {(b.whose, b.dataset): b for b in mine if b.architecture == architecture}
            best = {key: _best(block) for key, block in own.items()}
            columns = [(key, name) for key, first in graphs.items() for name in first.settings]
            prefix = f"{architecture}: " if len(architectures) > 1 else ""
            for method in in_order({m for block in own.values() for m in block.methods}):
                cells = [
                    _cell(own[key], method, name, best[key]) if key in own else ""
                    for key, name in columns
                ]
                rows.append([f"{prefix}{title_of(method)}", *cells])
            gains = [_gain_cell(own[key], name) if key in own else "" for key, name in columns]
            rows.append([f"{prefix}{GAIN_ROW}", *gains])
        yield Table(f"The paper's table, {task}", heading, rows)


def paired_table(block: RunBlock) -> Table:
    """TuneUp minus every other method: points, interval and p-value."""

    def cell(method: str, setting: str) -> str:
        gain = block.gain(method, "tuneup", setting)
        p_value = block.p_value(method, "tuneup", setting)
        return f"{interval(gain)}, p {p_value:.3f}" if gain else MISSING

    methods = [name for name in block.methods if name != "tuneup" and name in block.runs]
    rows = [[block.label(m), *(cell(m, setting) for setting in block.settings)] for m in methods]
    return Table(f"{block.name}: TuneUp minus", ["points", *block.settings], rows)


def _best(block: Block) -> dict[str, float]:
    """Of ours, the largest mean by setting, of the rows that have all seeds."""
    if not isinstance(block, RunBlock):
        return {}
    whole = [method for method in block.runs if not block.lacking(method)] or [*block.runs]
    found: dict[str, float] = {}
    for setting in block.settings:
        scores = [block.score(method, setting) for method in whole]
        found[setting] = max((s.mean for s in scores if s), default=math.nan)
    return found


def _cell(block: Block, method: str, setting: str, best: Mapping[str, float] | None = None) -> str:
    score = block.score(method, setting)
    if score is None:
        ours = isinstance(block, RunBlock) and setting in block.settings
        return "not run" if ours and method in block.methods else ""
    if score.note:
        return score.note
    text = f"{100 * score.mean:.2f}"
    text += "" if math.isnan(score.std) else f" ± {100 * score.std:.2f}"
    if isinstance(block, RunBlock) and (rival := block.gain(method, "tuneup", setting)):
        text += WORSE * (rival.low > 0) + BETTER * (rival.high < 0)
    return f"{_BOLD}{text}{_BOLD}" if best and score.mean == best.get(setting) else text


def _gain_cell(block: Block, setting: str) -> str:
    gain = block.gain("base", "tuneup", setting)
    known = block.score("base", setting) and block.score("tuneup", setting)
    return signed(gain.relative) if gain else MISSING * bool(known)


def conditions(block: RunBlock) -> Iterator[str]:
    """What a block was made under, and where that is not what the paper had, as sentences."""
    base = block.runs.get("base") or next(iter(block.runs.values()))
    config, paper = base[0].config, rules_for(block.task, preset="paper")
    if "pretrain" in config:
        ours, theirs = _budget(config), _budget(paper)
        waits = [config[stage]["patience"] for stage in ("pretrain", "finetune")]
        ended = f", ended after {waits[0]} and {waits[1]} epochs without a better score"
        beside = "" if ours == theirs else f" (paper: {theirs})"
        yield f"Preset {block.preset}: {ours}{ended if all(waits) else ''}{beside}."
        yield _shared(block, base[0].shared)
    seeds = len(block.seeds)
    yield f"{seeds} training seed{'s' * (seeds > 1)} (paper: {PAPER_SEEDS})."
    if "labelled" in config:
        graphs = {name: rules_for(block.task, name) for name in ("ogbn-arxiv", "ogbn-products")}
        shares = ", ".join(f"{100 * own['labelled']:g} % of {g}" for g, own in graphs.items())
        yield f"{100 * config['labelled']:g} % of the nodes are labelled (paper: {shares})."
    if block.task == LINKS:
        width, usual = config.get("embedding"), paper["embedding"]
        if width and width != usual:
            yield f"Embeddings and decoder of width {width} (paper: {usual})."
        yield f"Validation ranks for {VALIDATION_SOURCES} nodes, tests for all."
    if config.get("norm", "none") != "none":
        yield f"With {config['norm']} normalisation between layers."
    if config.get("weights_lr", [1, 1]) != [1, 1]:
        yield _own_recommender(config)
    if limited := [words for m in block.runs for words in hit_epoch_limit(block, m)]:
        yield f"Ended by the number of epochs, not by patience: {', '.join(limited)}."
    lacking = {m: block.means_only(m) for m in block.runs}
    if means := [f"{title_of(m)} {n} of {len(block.runs[m])}" for m, n in lacking.items() if n]:
        yield f"Without scores by node, and so not in intervals: {', '.join(means)}."
    if block.floors:
        yield f"Without training: {', '.join(map(_floor, block.floors.items()))}."
    revisions = {run.versions.get("revision") for own in block.runs.values() for run in own}
    if len(revisions) > 1:
        yield f"Made by {len(revisions)} revisions of the code; every run names its own."
    yield from _processors(block)


def _budget(config: Mapping[str, Any]) -> str:
    """``at most 240 + 250 epochs at 0.01, times 0.1 at epoch 90, and 0.001``."""
    stages = [config[name] for name in ("pretrain", "finetune")]
    first, second = (own if isinstance(own, Mapping) else asdict(own) for own in stages)

    def rate(stage: Mapping[str, Any]) -> str:
        steps = " and ".join(map(str, stage["milestones"]))
        return f"{stage['lr']:g}" + (f", times {stage['gamma']:g} at epoch {steps}," * bool(steps))

    epochs = f"{first['epochs']} + {second['epochs']}"
    return f"at most {epochs} epochs at {rate(first)} and {rate(second)}"


def _shared(block: RunBlock, shared: Mapping[str, Any]) -> str:
    tried, words = [trial.shared for trial in block.trials("base")], list[str]()
    for name, value in shared.items():
        values = sorted({point[name] for point in tried if name in point})
        grid = f" of {', '.join(f'{each:g}' for each in values)}"
        words.append(f"{name} {value:g}" + grid * bool(values))
    without = "" if "dropout" in shared else "; no dropout was tried"
    return f"Chosen on Base for all rows: {', '.join(words)}{without}."


def _own_recommender(config: Mapping[str, Any]) -> str:
    first, second = config["weights_lr"]
    parts = [
        f"inputs start with a standard deviation of {config['std']:g}",
        f"weights learn at {first:g} and {second:g} of the rate of the inputs",
    ]
    parts += ["weights start orthogonal"] * bool(config.get("orthogonal"))
    parts += ["nodes without an edge share an input of their own"] * bool(config.get("unknown"))
    return f"Not the paper's: {', '.join(parts)}."


def hit_epoch_limit(block: RunBlock, method: str) -> Iterator[str]:
    """How many runs had a last stage, or one of a module of their own, that patience did not end.

    Other stages before the last are Base's, which has a row.
    """
    ended: Counter[str] = Counter()
    runs, title = block.runs[method], title_of(method)
    for run in runs:
        for stage in run.stages:
            last, module = stage is run.stages[-1], stage.get("module", MODEL)
            if last or module != MODEL:
                name = title if last else f"{title}'s {module}"
                ended[name] += str(stage.get("stopped", "")).startswith("ran all")
    return (f"{name} {count} of {len(runs)}" for name, count in ended.items() if count)


def _floor(item: tuple[str, Mapping[str, float]]) -> str:
    """``popularity 4.89 (5.37 for users without an edge)``, in %."""
    name, means = item
    cold = means.get("no-edge")
    more = "" if cold is None else f" ({100 * cold:.2f} for users without an edge)"
    return f"{name.replace('co-occ', 'item co-occ')} {100 * means['transductive']:.2f}{more}"


def _processors(block: RunBlock) -> Iterator[str]:
    """Which rows were made on another kind of processor than most.

    Sums are rounded otherwise there, and scores end as far apart as those of two seeds.
    """
    found: dict[str, Counter[str]] = {}
    for method, runs in block.runs.items():
        for run in runs:
            processor = str(run.machine.get("processor", "an unknown processor"))
            found.setdefault(processor, Counter())[method] += 1
    usual, *others = sorted(found, key=lambda name: -found[name].total())
    for processor in others:
        listing = []
        for method, count in found[processor].items():
            some = f" ({count} of {len(block.runs[method])} runs)"
            listing.append(title_of(method) + some * (count < len(block.runs[method])))
        yield f"Made on {processor}: {', '.join(listing)}; all else on {usual}."


def markdown(table: Table, title: bool = True) -> str:
    """Below its title and what it was made under."""
    rows = [[cell.replace(_BOLD, "**") for cell in row] for row in table.rows]
    body = markdown_table(table.heading, rows, words=range(table.words))
    heading = f"### {table.title}" if title else ""
    return "\n\n".join(filter(None, [heading, table.above, body, table.below]))


def latex(table: Table) -> str:
    """In booktabs style, with what it was made under in its caption."""

    def safe(text: str) -> str:
        written = text.replace(_BOLD, "").replace("`", "").translate(_LATEX)
        return rf"\textbf{{{written}}}" if _BOLD in text else written

    caption = ". ".join(filter(None, [table.title, table.above, table.below]))
    columns = "l" * table.words + "r" * (len(table.heading) - table.words)
    lines = [" & ".join(map(safe, row)) + r" \\" for row in (table.heading, *table.rows)]
    top = [r"\begin{table}", rf"\caption{{{safe(caption)}}}", rf"\begin{{tabular}}{{{columns}}}"]
    body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
    return "\n".join([*top, *body, r"\end{tabular}", r"\end{table}"])


def terminal(table: Table, console: Console) -> None:
    """In as many parts below each other as its columns need."""
    texts = [[_narrow(cell) for cell in row] for row in (table.heading, *table.rows)]
    console.print(table.title, style="bold", highlight=False)
    for columns in _parts(texts, console.width):
        shown = RichTable(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        shown.add_column(texts[0][0], overflow="fold")
        for k in columns:
            shown.add_column(texts[0][k], justify="right", no_wrap=True)
        for row in texts[1:]:
            shown.add_row(*(_rich(row[k]) for k in (0, *columns)))
        console.print(shown)
    for words in filter(None, (table.below, table.above)):
        console.print(words.replace("`", ""), highlight=False, style="dim", markup=False)
    console.print()


def _parts(texts: Sequence[Sequence[str]], width: int) -> Iterator[list[int]]:
    """Columns that fit beside the first one."""
    widths = [max(len(t.replace(_BOLD, "")) for t in column) + 1 for column in zip(*texts)]  # noqa: B905
    room, part, used = width - min(widths[0], 24), list[int](), 0
    for k in range(1, len(widths)):
        if part and used + widths[k] > room:
            yield part
            part, used = [], 0
        part.append(k)
        used += widths[k]
    yield part


def _rich(text: str) -> str:
    plain = text.replace(_BOLD, "").replace("[", r"\[")
    return f"[bold]{plain}[/bold]" if _BOLD in text else plain


def _narrow(text: str) -> str:
    for long, short in _NARROW.items():
        text = text.replace(long, short)
    return text


def render(tables: Sequence[Table], form: str, legend: str = "", width: int | None = None) -> str:
    """Tables as "terminal", "markdown" or "latex" text.

    Args:
        tables: in their order.
        form: one of the three.
        legend: below all of them.
        width: of the terminal, if not that of the screen.
    """
    if form == "terminal":
        screen = Console(width=width)
        stream = io.StringIO()
        console = Console(file=stream, width=screen.width, force_terminal=screen.is_terminal)
        for table in tables:
            terminal(table, console)
        console.print(legend, highlight=False)
        return stream.getvalue()
    parts = [markdown(table) if form == "markdown" else latex(table) for table in tables]
    return "\n\n".join([*parts, *([legend] if legend and form == "markdown" else [])])


def show(request: Request, store: Store, form: str = "terminal", paired: bool = False) -> str:
    """What ``tuneup bench show`` prints: our blocks, and the paper's that go with them.

    Args:
        request: the blocks.
        store: of the results.
        form: "terminal", "markdown", "latex" or "csv".
        paired: with the tables of :func:`paired_table`, or p-values in "csv".
    """
    check_name("--format", form, FORMS)
    blocks = requested_blocks(request, store)
    if request.table:
        theirs = paper_blocks(request.kinds, request.shown, request.graphs)
    else:
        kinds = [(b.task, b.architecture) for b in blocks] if request.study == "paper" else []
        theirs = paper_blocks(kinds, None, request.graphs, blocks)
    every = [*blocks, *theirs]
    if form == "csv":
        return long_table(every, tested=paired).write_csv()
    tables = list(grid_tables(every)) if request.table else []
    tables += [block_table(b, form != "terminal") for b in (blocks if request.table else every)]
    tables += [paired_table(block) for block in blocks if paired]
    legend = f"{LEGEND} {PAIRED_LEGEND}" if paired else LEGEND
    return render(tables, form, legend).rstrip("\n") + "\n"


def export(store: Store, out: Path, tested: bool = False) -> Iterator[Path]:
    """Write all results as CSV, and every block as LaTeX; each path when it is there."""
    blocks = requested_blocks(Request(), store)
    theirs = paper_blocks((block.task, block.architecture) for block in blocks)
    write_atomic(out / "results.csv", long_table([*blocks, *theirs], tested).write_csv())
    yield out / "results.csv"
    for block in blocks:
        path = out / f"{block.file_name}.tex"
        write_atomic(path, latex(block_table(block)) + "\n")
        yield path
