"""Tables of the studies beside the paper's: each a pivot of the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from tuneup.bench import Run, Store, find_blocks
from tuneup.bench.render import interval
from tuneup.bench.studies import ALPHAS, DIAL
from tuneup.bench.tables import RunBlock
from tuneup.evaluation import Gain, paired_gain, split_by_degree
from tuneup.metrics import NodeScores
from tuneup.report.table import markdown_table, setting_label

NO_EDGE = "no edge"


def scores_of(store: Store, runs: Sequence[Run]) -> list[dict[str, NodeScores]]:
    """Scores by setting of each run."""
    found = store.scores(runs)
    return [found[run.id] for run in runs]


def _mean(scores: Sequence[NodeScores]) -> str:
    return f"{100 * fmean(part.mean() for part in scores):.1f}"


def _gain(base: Sequence[NodeScores], other: Sequence[NodeScores]) -> str:
    gain = paired_gain(base, other, flips=None)
    text = interval(gain)
    return f"**{text}**" if gain.low > 0 or gain.high < 0 else text


def _change(before: float, after: float, gain: Gain) -> str:
    """``70.1 → 71.5 (+0.9, +1.9)``."""
    ends = f"({100 * gain.low:+.1f}, {100 * gain.high:+.1f})"
    return f"{100 * before:.1f} → {100 * after:.1f} {ends}"


def _lonely(scores: Sequence[NodeScores]) -> list[NodeScores]:
    return [part.select(part.degree == 0) for part in scores]


def selection(store: Store) -> Iterator[str]:
    """Base, the paper's protocol, stage 2 and the interpolated model, by graph and setting."""
    yield (
        "Does selecting on validation nodes that lost edges, with an interpolation between Base "
        "and stage 2, give more than the paper's protocol? Base and *TuneUp* are the runs of the "
        "tables by graph; *stage 2* and *balanced* were trained once more with "
        '`selection="balanced"`. *w* is the share of stage 2\'s weights that was selected, seed '
        "by seed; bold: the interval does not contain 0."
    )
    for alpha, _ in ALPHAS:
        rows = [row for block in find_blocks(store) for row in _selected(block, alpha)]
        share = "a separate share for each node" if alpha == "graded" else f"{alpha:g}"
        yield f"### Stage 2 drops {share} of the edges"
        heading = ["graph", "setting", "seeds", "Base", "TuneUp", "stage 2", "balanced", "w"]
        heading += ["balanced - Base"]
        yield markdown_table(heading, rows, (0, 1)) if rows else "Not run yet."


def _selected(block: RunBlock, alpha: object) -> Iterator[list[str]]:
    store, names = block.store, ("task", "dataset", "architecture")
    where = {name: getattr(block, name) for name in names}
    mine, stage_2 = (
        [r for r in store.runs(study="selection", method=m, **where) if r.point["alpha"] == alpha]
        for m in (DIAL, "stage-2")
    )
    if not mine:
        return
    seeds = [run.seed for run in mine]
    base, tuned = ([r for r in block.runs[m] if r.seed in seeds] for m in ("base", "tuneup"))
    stage_2.sort(key=lambda run: seeds.index(run.seed))
    scores = [scores_of(store, runs) for runs in (base, stage_2, mine)]
    weights = ", ".join(f"{run.stages[-1]['dial']['chosen']:g}" for run in mine)

    def row(setting: str, reported: str, cells: Sequence[Sequence[NodeScores]]) -> list[str]:
        first, second, dial = map(_mean, cells)
        links = ", links" if block.task == "link-prediction" else ""
        label = [f"{block.dataset}, {block.architecture}{links}", setting, str(len(mine))]
        return [*label, first, reported, second, dial, weights, _gain(cells[0], cells[2])]

    for setting in scores[2][0]:
        if setting in scores[0][0]:
            cells = [[each[setting] for each in own] for own in scores]
            reported = f"{100 * fmean(run.means[setting] for run in tuned):.1f}"
            yield row(setting_label(setting), reported, cells)
            alone = [_lonely(own) for own in cells]
            if setting == "transductive" and len(alone[2][0]):
                yield row(NO_EDGE, "", alone)


def debian(store: Store) -> Iterator[str]:
    """Accuracy on the packages that the next release added, by model."""
    runs = store.runs(study="debian")
    if not runs:
        yield "Not run yet: `tuneup bench run --study debian`."
        return
    by_method: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_method[run.method].append(run)
    order = ["base", "stage-2", DIAL]
    names = [*order, *sorted(by_method.keys() - set(order))]
    scores = {name: scores_of(store, by_method[name]) for name in names}
    settings = list(scores["base"][0])
    yield (
        "`tuneup bench run --study debian`: trained by `tuneup fit` on the packages of one Debian "
        f"release, accuracy in % on those that the next one added; {len(by_method['base'])} seeds. "
        f"*{NO_EDGE}*: packages that arrived without one. Simple models have no seed."
    )
    rows = [
        [
            name,
            *(_mean([each[setting] for each in own]) for setting in settings),
            _mean(_lonely([each["inductive"] for each in own])),
        ]
        for name, own in scores.items()
    ]
    gains = [_gain([s[k] for s in scores["base"]], [s[k] for s in scores[DIAL]]) for k in settings]
    rows.insert(3, [f"{DIAL} - base", *gains, ""])
    yield markdown_table(["model", *settings, NO_EDGE], rows)


def labels(store: Store) -> Iterator[str]:
    """Base and TuneUp on Computers with 2 and with 10 % of the nodes labelled."""
    yield (
        "`tuneup bench run --study labels`: accuracy of Base → TuneUp on Computers in %, with the "
        "95 % interval of the gain over nodes and seeds. With 10 % of the nodes labelled, dropout "
        "and alpha were chosen again, by as many trials."
    )
    rows, graph, task = [], ["Computers"], "node-classification"
    for architecture in ("sage", "gcn"):
        for study, share in (("paper", "2 %"), ("labels", "10 %")):
            where: Any = {"datasets": graph, "task": task, "architectures": [architecture]}
            (block,) = find_blocks(store, **where, study=study)
            cells = []
            for name in block.settings:
                one, other = block.score("base", name), block.score("tuneup", name)
                gain = block.gain("base", "tuneup", name)
                assert one is not None
                assert other is not None
                assert gain is not None
                cells.append(_change(one.mean, other.mean, gain))
            rows.append([f"{architecture}, {share}", str(len(block.seeds)), *cells])
    settings = block.settings
    yield markdown_table(("Computers, labelled", "seeds", *settings), rows)


def demo(store: Store) -> Iterator[str]:
    """The graph of the demo from five generator seeds."""
    yield (
        "`tuneup bench run --study demo`: accuracy of Base → TuneUp in %, 95 % interval of the "
        "gain over nodes, on the graph of `tuneup demo` from five generator seeds. Training seed "
        "0, alpha 0.5, nothing selected by hand."
    )
    found: dict[str, dict[str, Mapping[str, NodeScores]]] = defaultdict(dict)
    for run in store.runs(study="demo"):
        found[run.dataset][run.method] = store.scores([run])[run.id]
    settings = list(next(iter(found.values()))["base"])
    for group, title in (("overall", "graph"), ("tail", "its nodes of degree 0 to 5")):
        rows = []
        for graph, models in found.items():
            cells = []
            for name in settings:
                one, other = models["base"][name], models["tuneup"][name]
                if group == "tail":
                    one, other = (split_by_degree(part)["tail"] for part in (one, other))
                gain = paired_gain(one, other, flips=None)
                cells.append(_change(one.mean(), other.mean(), gain))
            rows.append([graph, *cells])
        yield markdown_table([title, *settings], rows)


def by_hand(store: Store) -> Iterator[str]:
    """Recommenders on gowalla with settings that were found by hand."""
    yield (
        "Recommenders on gowalla with manually tuned settings, chosen on validation; the store "
        "has all of them. recall@50; the Base of each is its own stage 1. LightGCN is not in the "
        "paper."
    )
    rows = []
    runs = sorted(store.runs(study="by-hand"), key=lambda r: (r.architecture, -r.validation))
    for number, run in enumerate(runs, 1):
        for k, stage in enumerate(run.stages):
            gain = f"{100 * (stage['test'] / run.stages[0]['test'] - 1):+.1f} %" if k else ""
            groups = [f"{value:.4f}" for value in stage["by_degree"].values()]
            facts = [f"{number}", f"{run.architecture}, {run.method if k else 'base'}"]
            facts += [f"{run.config['width']}", f"{run.config.get('negatives', 1)}"]
            rows.append(
                [*facts, f"{stage['best_score']:.4f}", f"{stage['test']:.4f}", gain, *groups]
            )
    groups = [f"{name} pairs" for name in runs[0].stages[0]["by_degree"]]
    heading = ["run", "model", "width", "negatives", "validation", "test", "gain over Base"]
    yield markdown_table([*heading, *groups], rows, (0, 1))


def new_users(store: Store) -> Iterator[str]:
    """Users of gowalla whom the model never saw."""
    runs = {run.method: run for run in store.runs(study="new-users")}
    config = runs["served"].config
    yield (
        f"recall@50 of {config['users']:,} users of gowalla who were held out whole, by the number "
        "of their pairs that are given to a LightGCN without training it again. Of the 50 items "
        f"for a user with 10 pairs, {config['overlap']:.1%} stay if the whole model is run on the "
        "graph with that user in it."
    )
    order = ("popularity", "mean-user", "unknown-user", "served")
    settings = list(runs["served"].means)
    rows = [
        [name.removeprefix("given-"), *(f"{runs[m].means[name]:.4f}" for m in order)]
        for name in settings
    ]
    heading = ("given pairs", "popularity", "mean user", "learned unknown", "as served")
    yield markdown_table(heading, rows)
