"""Exact ranking: the naive sort, in any company and with any thread count, to the last bit."""

from dataclasses import dataclass
from itertools import accumulate

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.profiler import profile

from tuneup.errors import InputError
from tuneup.graph import Rows
from tuneup.metrics.topk import INNER_PRODUCT, InnerProductScorer, top_k, top_k_dense
from tuneup.nn import HadamardMLP, HadamardScorer

DECODER = HadamardScorer(HadamardMLP(8, 8))
SMALL = InnerProductScorer(tile=(8, 64))


def random_rows(num_sources: int, num_candidates: int, most: int, generator: torch.Generator):
    count = torch.randint(0, min(most, num_candidates) + 1, (num_sources,), generator=generator)
    lists = [torch.randperm(num_candidates, generator=generator)[:c].sort().values for c in count]
    rowptr = torch.cat([torch.zeros(1, dtype=torch.long), count.cumsum(0)])
    return Rows(rowptr, torch.cat(lists) if lists else torch.empty(0, dtype=torch.long))


def naive(scores: torch.Tensor, k: int, known: Rows | None) -> list[list[int]]:
    """Sort every candidate of every source by (-score, id)."""
    out = []
    for i, row in enumerate(scores.tolist()):
        masked = (
            set()
            if known is None
            else set(known.col[known.rowptr[i] : known.rowptr[i + 1]].tolist())
        )
        order = sorted((-score, j) for j, score in enumerate(row) if j not in masked)
        ids = [j for _, j in order[:k]]
        out.append(ids + [-1] * (k - len(ids)))
    return out


@settings(max_examples=40, deadline=None)
@given(
    num_sources=st.integers(1, 30),
    num_candidates=st.integers(1, 200),
    k=st.integers(1, 60),
    values=st.integers(1, 4),
    masked=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_equals_the_naive_sort(num_sources, num_candidates, k, values, masked, seed):
    """Few distinct integer values: nearly everything ties, and every score is exact."""
    generator = torch.Generator().manual_seed(seed)
    sources = torch.randint(-values, values + 1, (num_sources, 2), generator=generator).float()
    candidates = torch.randint(
        -values, values + 1, (num_candidates, 2), generator=generator
    ).float()
    known = random_rows(num_sources, num_candidates, 9, generator) if masked else None
    found = top_k(sources, candidates, k, known=known, scorer=SMALL)
    scores = sources @ candidates.t()
    assert found.ids.tolist() == naive(scores, k, known)
    inside = found.ids >= 0
    expected = scores.gather(1, found.ids.clamp(min=0))
    assert torch.equal(found.scores[inside], expected[inside])
    assert (found.scores[~inside] == -torch.inf).all()


@pytest.fixture(scope="module")
def near_ties():
    """Embeddings in clusters that differ in the last bits, and some that are duplicates."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(40, 64, generator=generator)
    candidates = centres.repeat(150, 1)
    candidates[1000:] *= 1 + 1e-7 * torch.randn(5000, 1, generator=generator)
    return torch.randn(700, 64, generator=generator), candidates


def test_a_source_is_ranked_alike_in_any_company(near_ties):
    """Alone or among others, first or last: a pair's score has the same bits."""
    sources, candidates = near_ties
    together = top_k(sources, candidates, 20)
    for i in (0, 311, 699):
        assert torch.equal(top_k(sources[i : i + 1], candidates, 20).ids[0], together.ids[i])


def test_duplicates_come_in_the_order_of_their_ids():
    candidates = torch.ones(9000, 4)
    found = top_k(torch.ones(3, 4), candidates, 30)
    assert torch.equal(found.ids, torch.arange(30).expand(3, 30))


def test_minus_zero_ties_with_zero():
    candidates = torch.tensor([[-0.0], [0.0], [-0.0]])
    assert top_k(torch.tensor([[1.0]]), candidates, 3).ids.tolist() == [[0, 1, 2]]


def test_everything_known_leaves_nothing():
    known = Rows(torch.tensor([0, 3]), torch.arange(3))
    found = top_k(torch.ones(1, 2), torch.ones(3, 2), 2, known=known)
    assert found.ids.tolist() == [[-1, -1]]


@pytest.mark.parametrize("scorer", [INNER_PRODUCT, DECODER], ids=["inner product", "decoder"])
def test_without_candidates_there_is_nothing_to_find(scorer):
    found = top_k(torch.randn(3, 8), torch.randn(0, 8), 2, scorer=scorer)
    assert found.ids.tolist() == [[-1, -1]] * 3
    assert (found.scores == -torch.inf).all()


def test_a_scorer_of_ones_own_that_is_an_inner_product_of_a_kind():
    @dataclass(frozen=True)
    class Cosine(InnerProductScorer):
        def __call__(self, sources, candidates, out):
            torch.mm(sources, torch.nn.functional.normalize(candidates).t(), out=out)

    candidates = torch.tensor([[9.0, 9.0], [0.1, 0.0], [0.0, 5.0]])
    assert top_k(torch.tensor([[1.0, 0.0]]), candidates, 1).ids.tolist() == [[0]]
    assert top_k(torch.tensor([[1.0, 0.0]]), candidates, 1, scorer=Cosine()).ids.tolist() == [[1]]


def test_a_tile_holds_something():
    with pytest.raises(InputError, match="tile is 1 by 1 or larger"):
        top_k(torch.ones(2, 2), torch.ones(9, 2), 1, scorer=InnerProductScorer(tile=(0, 40)))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((torch.ones(1, 2), torch.ones(3, 2), 0), "k must be 1 or more"),
        (
            (torch.ones(1, 2), torch.full((3, 2), torch.nan), 1),
            "candidates: the embedding in row 0",
        ),
    ],
)
def test_nonsense_is_refused(arguments, words):
    with pytest.raises(InputError, match=words):
        top_k(*arguments)


@pytest.mark.parametrize("k", [2, 128, 129, 7000])
def test_near_ties_of_several_tiles_on_any_number_of_threads(near_ties, k):
    """Ordered by the bits of the tiles, which are the same in every run."""
    sources, candidates = near_ties[0][:140], near_ties[1]
    known = random_rows(140, 6000, 300, torch.Generator().manual_seed(1))
    found = top_k(sources, candidates, k, known=known)
    padded = [
        torch.nn.functional.pad(z, (0, 0, 0, -len(z) % n))
        for z, n in ((sources, INNER_PRODUCT.tile[0]), (candidates, INNER_PRODUCT.tile[1]))
    ]
    tiles = [[s @ c.t() for c in padded[1].split(4096)] for s in padded[0].split(128)]
    scores = torch.cat([torch.cat(row, 1) for row in tiles])[:140, :6000]
    assert found.ids[::10].tolist() == naive(scores, k, known)[::10]
    before = torch.get_num_threads()
    torch.set_num_threads(2 if before == 1 else 1)
    try:
        again = top_k(sources, candidates, k, known=known)
        with torch.autocast("cpu", torch.bfloat16):
            half = top_k(sources, candidates, k, known=known)
    finally:
        torch.set_num_threads(before)
    for other in (again, half):
        assert torch.equal(other.ids, found.ids)
        assert torch.equal(other.scores, found.scores)


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("scorer", [INNER_PRODUCT, DECODER], ids=["inner product", "decoder"])
def test_memory_is_that_of_a_tile(scorer, equal):
    """Also where every score ties, so that all candidates of a tile are among the best so far."""
    generator = torch.Generator().manual_seed(0)
    sources, candidates = (torch.randn(n, 8, generator=generator) for n in (1000, 6000))
    if equal:
        sources, candidates = torch.ones(1000, 8), torch.ones(6000, 8)
    with profile(profile_memory=True) as profiled:
        found = top_k(sources, candidates, 20, scorer=scorer)
    events = profiled.profiler.kineto_results.events()
    sizes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    peak = max(accumulate(size for _, size in sorted(sizes)))
    fixed = 2 * (found.ids.nbytes + sources.nbytes + candidates.nbytes)
    assert peak - fixed < 90 * scorer.tile[0] * scorer.tile[1]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 5), st.integers(1, 40), st.integers(1, 60), st.integers(1, 4), st.integers(0, 99)
)
def test_computed_scores_against_a_sort_of_every_row(rows, columns, k, values, seed):
    """Fewer candidates than k leave -1; of equals the first columns are taken, in their order."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(-1, values, (rows, columns), generator=generator).float()
    known = random_rows(rows, columns, columns, generator)
    expected = naive(scores, k, known)
    found = top_k_dense(scores.clone(), k, known=known)
    assert found.ids.tolist() == expected
    wide = top_k_dense(scores.repeat(1, 300), k)  # several tiles
    assert wide.ids.tolist() == naive(scores.repeat(1, 300), k, None)
