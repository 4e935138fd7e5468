"""Users whom a recommender never saw: what a few of their pairs are worth, without training.

5 % of gowalla's users are held out whole.  LightGCN is trained by TuneUp on a tenth of the others'
pairs, as in the paper, and saved.  Of each held-out user 0, 1, 3 or 10 pairs are then given, and
the others are to be found among all items.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tuneup.curriculum import Schedule, tuneup
from tuneup.data import (
    Interactions,
    InteractionSplit,
    interactions_from,
    load_dataset,
    split_interactions,
)
from tuneup.graph import Rows, adjacency_from
from tuneup.metrics.ranking import is_hit, ranking_scores
from tuneup.metrics.topk import TopK, top_k
from tuneup.nn import InnerProduct, LightGCN, Model, UserItemVectors, call_module
from tuneup.report.table import markdown_table
from tuneup.serve import Predictor
from tuneup.serve.request import read_arrivals
from tuneup.tasks import L2, Recommendation
from tuneup.train import Checkpoints, train

from .gowalla import show
from .records import ROOT

RUNS = ROOT / "runs" / "serving"
HELD_OUT, METRIC, K = 0.05, "recall@50", 50
GIVEN = (0, 1, 3, 10)
INSERTED = 20
"""Users who are also inserted into the whole graph."""
SEED = 0


def hold_out(data: Interactions) -> tuple[Interactions, list[list[int]]]:
    """The pairs of 95 % of the users, renumbered, and the items of each other user, shuffled."""
    generator = torch.Generator().manual_seed(SEED)
    order = torch.randperm(data.num_users, generator=generator)
    count = round(HELD_OUT * data.num_users)
    position = torch.full((data.num_users,), -1)
    position[order[count:].sort().values] = torch.arange(data.num_users - count)
    stay = position[data.user] >= 0
    rest = interactions_from(
        position[data.user[stay]],
        data.item[stay],
        data.num_users - count,
        data.num_items,
        "gowalla, 95 % of the users",
    )
    rows = data.rows()
    lists = []
    for user in order[:count].sort().values.tolist():
        items = rows.col[rows.rowptr[user] : rows.rowptr[user + 1]]
        lists.append(items[torch.randperm(items.numel(), generator=generator)].tolist())
    return rest, [items for items in lists if len(items) > max(GIVEN)]


def trained(split: InteractionSplit, width: int, epochs: tuple[int, ...]) -> Predictor:
    """The served model, from its folder, from its checkpoint or from scratch."""
    name = f"lightgcn-{width}-{epochs[0]}-{epochs[1]}"
    place = RUNS / name / "model"
    if not place.exists():
        torch.manual_seed(SEED)
        users, items = split.train.num_users, split.train.num_items
        inputs = UserItemVectors(users, items, width, std=0.01, unknown=True)
        model = Model(inputs, LightGCN(3), InnerProduct())
        task = Recommendation(split.train, split.validation, L2(input=0.03))
        stages = tuneup(
            0.5,
            Schedule(epochs[0], lr=0.01, milestones=(epochs[0] * 5 // 6,), validate_every=40),
            Schedule(epochs[1], lr=0.005, validate_every=20),
        )
        checkpoints = Checkpoints(RUNS / name / "checkpoints", 20)
        result = train(model, task, stages, seed=SEED, checkpoints=checkpoints, callback=show)
        assert isinstance(result.model, Model)
        Predictor(result.model, split.train, name=f"gowalla, {name}").save(place)
    return Predictor.load(place)


def measure(width: int, epochs: tuple[int, ...]) -> dict[str, Any]:
    """Recall of the held-out users by the number of pairs that are given."""
    data = load_dataset("gowalla")
    assert isinstance(data, Interactions)
    rest, lists = hold_out(data)
    split = split_interactions(rest)
    predictor = trained(split, width, epochs)
    count = torch.bincount(split.train.item, minlength=rest.num_items).float()[:, None]
    found = []
    for given in GIVEN:
        known = rows_of([items[:given] for items in lists])
        wanted = rows_of([items[given:] for items in lists])
        popular = top_k(count.new_ones(len(lists), 1), count, K, known=known)
        inputs = {
            "mean": predictor.model.new_user,
            "unknown": model_of(predictor).unknown[0],  # type: ignore[index]
        }
        row: dict[str, Any] = {"given": given, "popularity": recall(popular, wanted, rest)}
        for name, vector in inputs.items():
            assert isinstance(vector, Tensor)
            row[name] = recall(ranked(predictor, lists, given, vector), wanted, rest)
        served = predictor.recommend_new([items[:given] for items in lists], K)
        as_served = TopK(torch.from_numpy(served.numbers), torch.from_numpy(served.scores))
        row["served"] = recall(as_served, wanted, rest)
        found.append(row)
        print(row, flush=True)
    return {
        "overlap": overlap(predictor, lists[:INSERTED]),
        "users": len(lists),
        "training_pairs": len(split.train),
        "model": {"kind": "lightgcn", "width": width, "epochs": list(epochs)},
        "metric": METRIC,
        "given": found,
    }


def model_of(predictor: Predictor) -> UserItemVectors:
    """The inputs of the recommender inside."""
    inputs = predictor.model.artefact.model.inputs
    assert isinstance(inputs, UserItemVectors)
    return inputs


def ranked(predictor: Predictor, lists: list[list[int]], given: int, vector: Tensor) -> TopK:
    """The best items if every new user enters with one vector."""
    first, graph = predictor.model.first, predictor.model.artefact.adjacency
    shown = [items[:given] for items in lists]
    arrived = read_arrivals(predictor.candidates, first, graph, len(lists), shown)
    z = predictor.model.of_new(vector.expand(len(lists), -1).contiguous(), arrived)
    return top_k(z, predictor.outputs()[first:], K, known=rows_of(shown))


def overlap(predictor: Predictor, lists: list[list[int]]) -> float:
    """Share of the answers that stay if items, too, were as the whole model has them with the user.

    A new user's own embedding is exact; items are ranked as they stand without the user.
    """
    given, shares = max(GIVEN), []
    model, graph = model_of(predictor), predictor.model.artefact.adjacency
    answers = predictor.recommend_new([items[:given] for items in lists], K)
    for row, items in enumerate(lists):
        source = torch.tensor(items[:given]) + model.num_users
        edges = torch.stack([source, torch.full_like(source, graph.num_nodes)])
        every = torch.cat([graph.edge_index, edges], 1)
        bigger = adjacency_from(every, graph.num_nodes + 1, undirected=True)
        assert predictor.model.new_user is not None
        with torch.no_grad():
            known = model(None, bigger.induce(torch.arange(graph.num_nodes)))
            x = torch.cat([known, predictor.model.new_user[None]])
            z = call_module(predictor.model.artefact.model.encoder, x, bigger)
        best = top_k(z[-1:], z[model.num_users : -1], K, known=rows_of([items[:given]]))
        shares.append(len(set(best.ids[0].tolist()) & set(answers.numbers[row].tolist())) / K)
    return sum(shares) / len(shares)


def rows_of(lists: list[list[int]]) -> Rows:
    """Lists in compressed rows, each ascending."""
    rowptr = torch.tensor([0, *map(len, lists)]).cumsum(0)
    return Rows(
        rowptr, torch.tensor([i for items in lists for i in sorted(items)], dtype=torch.long)
    )


def recall(best: TopK, wanted: Rows, data: Interactions) -> float:
    """Mean over the users."""
    hits = is_hit(best, wanted, data.num_items)
    return float(ranking_scores(hits, wanted, METRIC).double().mean())


def tables(found: dict[str, Any]) -> str:
    """Recall by the number of given pairs."""
    heading = ("given pairs", "popularity", "mean user", "learned unknown", "as served")
    rows = [
        (
            str(row["given"]),
            *(f"{row[name]:.4f}" for name in ("popularity", "mean", "unknown", "served")),
        )
        for row in found["given"]
    ]
    head = f"{found['metric']} of {found['users']:,} held-out users of gowalla:"
    stays = (
        f"Of the {K} items for a user with {max(GIVEN)} pairs, {found['overlap']:.1%} stay if the "
        "whole model is run on the graph with that user in it."
    )
    return "\n\n".join([head, markdown_table(heading, rows), stays])
