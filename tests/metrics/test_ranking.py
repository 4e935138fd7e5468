"""Ranking metrics against a naive loop and against torch_geometric's."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric import metrics as pyg

from tuneup.errors import InputError
from tuneup.graph import Rows
from tuneup.metrics import METRICS, check_metric
from tuneup.metrics.ranking import is_hit, parse_metric, ranking_metric, ranking_scores
from tuneup.metrics.topk import TopK

PYG = {
    "recall": pyg.LinkPredRecall,
    "precision": pyg.LinkPredPrecision,
    "ndcg": pyg.LinkPredNDCG,
    "mrr": pyg.LinkPredMRR,
    "hit": pyg.LinkPredHitRatio,
}


def naive(ids: list[int], targets: set[int], kind: str, k: int) -> float:
    hits = [j in targets for j in ids[:k]]
    best = sum(1 / math.log2(j + 2) for j in range(min(k, len(targets))))
    return {
        "recall": sum(hits) / len(targets),
        "precision": sum(hits) / k,
        "hit": float(any(hits)),
        "mrr": next((1 / (j + 1) for j, hit in enumerate(hits) if hit), 0.0),
        "ndcg": sum(hit / math.log2(j + 2) for j, hit in enumerate(hits)) / best,
    }[kind]


@st.composite
def rankings(draw):
    num_candidates = draw(st.integers(5, 40))
    num_sources = draw(st.integers(1, 8))
    ranked = draw(st.integers(1, num_candidates))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 10_000)))
    ids = torch.stack(
        [torch.randperm(num_candidates, generator=generator)[:ranked] for _ in range(num_sources)]
    )
    targets = [
        torch.randperm(num_candidates, generator=generator)[: 1 + i % 5].sort().values
        for i in range(num_sources)
    ]
    rowptr = torch.tensor([0, *[t.numel() for t in targets]]).cumsum(0)
    return TopK(ids, torch.zeros(ids.shape)), Rows(rowptr, torch.cat(targets)), num_candidates


@settings(max_examples=60, deadline=None)
@given(rankings(), st.sampled_from(sorted(PYG)), st.data())
def test_equals_the_loop_and_pyg(ranking, kind, data):
    top, targets, num_candidates = ranking
    k = data.draw(st.integers(1, top.ids.shape[1]))
    found = ranking_scores(is_hit(top, targets, num_candidates), targets, f"{kind}@{k}")
    sets = [set(part.tolist()) for part in targets.col.split(targets.count.tolist())]
    expected = [naive(ids, of, kind, k) for ids, of in zip(top.ids.tolist(), sets, strict=True)]
    torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-5, atol=1e-6)
    theirs = PYG[kind](k)
    source = torch.arange(len(sets)).repeat_interleave(targets.count)
    theirs.update(top.ids, torch.stack([source, targets.col]))
    torch.testing.assert_close(found.mean(), theirs.compute(), rtol=1e-5, atol=1e-6)


def test_an_empty_place_is_no_hit():
    """-1 of one source must not be mistaken for the last candidate of the one before."""
    top = TopK(torch.tensor([[0, 1], [-1, -1]]), torch.zeros(2, 2))
    targets = Rows(torch.tensor([0, 1, 2]), torch.tensor([4, 0]))
    assert not is_hit(top, targets, 5).any()


def test_names_of_metrics():
    assert parse_metric("ndcg@20") == ("ndcg", 20)
    assert ranking_metric("mrr") == "mrr@50"
    for name in ("recall@0", "recall@", "recall@x", "auc@5", "@5", ""):
        with pytest.raises(InputError, match="expected one of recall"):
            parse_metric(name)
    for names in METRICS.values():
        for name in names:
            check_metric(name)
    with pytest.raises(InputError, match="got 'auc'; expected one of accuracy, macro-f1"):
        check_metric("auc")


def test_what_cannot_be_measured_is_refused():
    hits = torch.zeros(2, 3, dtype=torch.bool)
    targets = Rows(torch.tensor([0, 1, 1]), torch.tensor([0]))
    with pytest.raises(InputError, match="needs the 5 best"):
        ranking_scores(hits, targets, "recall@5")
    with pytest.raises(InputError, match="Source 1 has no target"):
        ranking_scores(hits, targets, "recall@3")
