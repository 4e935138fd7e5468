"""Exact ranking: the naive sort, for every budget and thread count, to the last bit."""

import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.profiler import profile

from tuneup.errors import InputError
from tuneup.graph import Rows
from tuneup.graph.kernels import sampled_product
from tuneup.metrics import scoring as scoring_module
from tuneup.metrics.scoring import INNER_PRODUCT, Bounded, InnerProduct
from tuneup.metrics.topk import top_k
from tuneup.nn.heads import HadamardMLP, HadamardScorer

DECODER = HadamardScorer(HadamardMLP(8, 8))
SMALL = InnerProduct(tile=(8, 64))


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


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("budget", [1, 1 << 22, 1 << 40])
def test_budget_and_threads_change_nothing(near_ties, threads, budget):
    reference = top_k(*near_ties, 50)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = top_k(*near_ties, 50, budget=budget)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found.ids, reference.ids)
    assert torch.equal(found.scores, reference.scores)


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


def test_memory_stays_within_the_budget():
    sources, candidates = torch.randn(2000, 8), torch.randn(20_000, 8)
    with profile(profile_memory=True) as profiled:
        top_k(sources, candidates, 10, budget=1 << 22)
    allocations = [e.cpu_memory_usage for e in profiled.events()]
    assert max(allocations) <= 3 * (1 << 22)  # all scores at once would be 160 MB


@pytest.mark.parametrize(
    ("scorer", "k", "equal"),
    [(INNER_PRODUCT, 200, False), (INNER_PRODUCT, 10, True), (DECODER, 50, False)],
    ids=["more than there are segments", "every score ties", "a decoder"],
)
def test_memory_stays_within_the_budget_when_little_can_be_pruned(scorer, k, equal):
    """Of one tile of scores, far more candidates than usual have to be held at first."""
    budget, generator = 1 << 22, torch.Generator().manual_seed(0)
    sources, candidates = (torch.randn(n, 8, generator=generator) for n in (1500, 4000))
    if equal:
        sources, candidates = torch.ones(1500, 8), torch.ones(4000, 8)
    with profile(profile_memory=True) as profiled:
        found = top_k(sources, candidates, k, scorer=scorer, budget=budget)
    held, peak = 0, 0
    for event in sorted(memory_events(profiled), key=lambda event: event[0]):
        held += event[1]
        peak = max(peak, held)
    fixed = found.ids.nbytes + found.scores.nbytes + 2 * (sources.nbytes + candidates.nbytes)
    assert peak - fixed < 4 * budget
    again = top_k(sources, candidates, k, scorer=scorer, budget=1 << 30)
    assert torch.equal(found.ids, again.ids)
    assert torch.equal(found.scores, again.scores)


def memory_events(profiled):
    """When, and how many bytes were taken (or given back)."""
    return [
        (event.start_ns(), event.nbytes())
        for event in profiled.profiler.kineto_results.events()
        if event.name() == "[memory]"
    ]


@pytest.mark.parametrize("k", [2, 50, 128, 129])
def test_the_default_tile_against_a_sort_of_all_scores(near_ties, k):
    """Two tiles, pruning by segments or without; the scores of all pairs, one source at a time."""
    sources, candidates = near_ties[0][:40], near_ties[1]
    known = random_rows(40, 6000, 300, torch.Generator().manual_seed(1))
    found = top_k(sources, candidates, k, known=known)
    whole = torch.tensor([0, 6000]), torch.arange(6000), torch.zeros(6000, dtype=torch.long)
    scores = torch.stack([sampled_product(*whole, s[None], candidates) for s in sources])
    assert found.ids.tolist() == naive(scores, k, known)


@pytest.fixture(scope="module", params=["few directions", "one direction", "all directions"])
def wide(request):
    """Embeddings as training leaves them, collapsed, and as it finds them; some are 0."""
    generator = torch.Generator().manual_seed(2)
    num = {"few directions": 12, "one direction": 1, "all directions": 96}[request.param]
    directions = torch.randn(num, 96, generator=generator)
    sources, candidates = (
        torch.randn(n, num, generator=generator) @ directions
        + 0.01 * torch.randn(n, 96, generator=generator)
        for n in (500, 5000)
    )
    candidates *= torch.rand(5000, 1, generator=generator)
    candidates[::7] = 0.0
    return sources, candidates


def test_bounds_in_few_directions_change_nothing(wide):
    """A source alone is ranked by whole vectors: turning them would not pay for it."""
    sources, candidates = wide
    known = random_rows(500, 5000, 100, torch.Generator().manual_seed(3))
    together = top_k(sources, candidates, 60, known=known)
    for i in range(0, 500, 25):
        rows = Rows(torch.tensor([0, int(known.count[i])]), known.take(torch.tensor([i])).col)
        alone = top_k(sources[i : i + 1], candidates, 60, known=rows)
        assert torch.equal(alone.ids[0], together.ids[i])
        assert torch.equal(alone.scores[0], together.scores[i])


def test_bounds_in_few_directions_against_a_sort_of_all_scores(wide):
    sources, candidates = wide
    found = top_k(sources, candidates, 60)
    for i in range(0, 500, 50):
        every = torch.arange(5000)
        one = torch.tensor([0, 5000]), every, torch.zeros_like(every)
        scores = sampled_product(*one, sources[i : i + 1], candidates)
        assert found.ids[i].tolist() == naive(scores[None], 60, None)[0]


def test_autocast_changes_nothing(wide):
    """In half precision bounds would be too low, and near-ties would be lost."""
    sources, candidates = wide[0] * 0.01 + 1.0, wide[1] * 0.01 + 1.0
    expected = top_k(sources, candidates, 50)
    with torch.autocast("cpu", torch.bfloat16):
        found = top_k(sources, candidates, 50)
    assert torch.equal(found.ids, expected.ids)
    assert torch.equal(found.scores, expected.scores)


def test_the_newer_switches_of_precision_are_no_obstacle():
    """Once one of them was used, torch refuses to tell the precision by its older one."""
    lines = (
        "import torch",
        "from tuneup.metrics.topk import top_k",
        "torch.backends.mkldnn.matmul.fp32_precision = 'bf16'",
        "print(top_k(torch.eye(3), torch.eye(3), 1).ids.flatten().tolist())",
    )
    command = [sys.executable, "-c", "\n".join(lines)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said.strip() == "[0, 1, 2]"


@pytest.mark.parametrize(("one", "other"), [(1e20, 1.0), (1e-18, 2e18), (1.0, 1e19)])
def test_numbers_too_large_to_be_squared_are_ranked_all_the_same(one, other):
    generator = torch.Generator().manual_seed(0)
    sources, candidates = (torch.randn(300, 64, generator=generator) for _ in range(2))
    expected = top_k(sources, candidates, 5)
    found = top_k(sources * one, candidates * other, 5)
    assert (found.ids == expected.ids).float().mean() > 0.99  # products are rounded otherwise


@pytest.mark.parametrize("scorer", [INNER_PRODUCT, DECODER], ids=["inner product", "decoder"])
def test_without_candidates_there_is_nothing_to_find(scorer):
    found = top_k(torch.randn(3, 8), torch.randn(0, 8), 2, scorer=scorer)
    assert found.ids.tolist() == [[-1, -1]] * 3
    assert (found.scores == -torch.inf).all()


def test_a_scorer_of_ones_own_that_is_an_inner_product_of_a_kind():
    @dataclass(frozen=True)
    class Cosine(InnerProduct):
        def __call__(self, sources, candidates, out):
            torch.mm(sources, torch.nn.functional.normalize(candidates).t(), out=out)

    candidates = torch.tensor([[9.0, 9.0], [0.1, 0.0], [0.0, 5.0]])
    assert top_k(torch.tensor([[1.0, 0.0]]), candidates, 1).ids.tolist() == [[0]]
    assert top_k(torch.tensor([[1.0, 0.0]]), candidates, 1, scorer=Cosine()).ids.tolist() == [[1]]


def test_no_bound_is_too_low_where_factors_are_shortened(wide, monkeypatch):
    """As on processors whose products round their factors to bfloat16."""
    plain = torch.Tensor.__matmul__

    def shortened(self, other):
        return plain(self.bfloat16().float(), other.bfloat16().float())

    sources, candidates = wide[0][:50] + 3.0, wide[1] + 3.0
    monkeypatch.setattr(scoring_module, "_may_shorten", lambda: True)
    monkeypatch.setattr(torch.Tensor, "__matmul__", shortened)
    bounded = Bounded(wide[0] + 3.0, candidates, 50, 4096)
    group = bounded.group(slice(0, 50))
    for span in [span for spans in bounded.rounds for span in spans]:
        optimistic = group.optimistic(span)
        exact = sources.double().mm(bounded.candidates[slice(*span)].double().t())
        assert (exact <= optimistic).all()
        assert (exact >= optimistic - group.slack(span)).all()


def test_few_directions_are_taken_where_they_suffice(wide):
    basis = Bounded(*wide, 50, 4096).basis
    share = torch.linalg.svdvals(wide[1])[:30].square().sum() / wide[1].square().sum()
    assert (basis is None) == (share < 0.9)
    assert basis is None or basis[1] == 30


def heavy_tailed(directions, generator):
    """Lengths from 1 to thousands, as sums over neighbours have, in so many directions."""
    plane = torch.randn(directions, 256, generator=generator)
    for count in (1100, 9000):
        length = torch.randn(count, 1, generator=generator).mul(2.5).exp()
        yield length * (torch.randn(count, directions, generator=generator) @ plane)


@pytest.mark.parametrize(("directions", "taken"), [(20, 30), (256, None)])
def test_all_directions_are_taken_where_few_would_leave_most_pairs(directions, taken):
    """The longest have nearly all of the squared lengths, and say nothing of the others."""
    both = list(heavy_tailed(directions, torch.Generator().manual_seed(0)))
    if taken is None:
        share = torch.linalg.svdvals(both[1])[:30].square().sum() / both[1].square().sum()
        assert share > 0.5
    basis = Bounded(*both, 50, 4096).basis
    assert (None if basis is None else basis[1]) == taken


def test_more_may_be_asked_for_than_there_are(wide):
    sources, candidates = wide[0], wide[1][:800]
    found = top_k(sources, candidates, 1000)
    assert (found.ids[:, :800].sort(1).values == torch.arange(800)).all()
    assert (found.ids[:, 800:] == -1).all()


def test_the_floor_rises_where_the_longest_are_not_the_best(monkeypatch):
    """Half of the candidates are long and point away: behind them, all others would survive."""
    scored = []
    plain = scoring_module._BoundedGroup.scores

    def counted(self, rowptr, place, optimistic):
        scored.append(place.numel())
        return plain(self, rowptr, place, optimistic)

    monkeypatch.setattr(scoring_module._BoundedGroup, "scores", counted)
    generator = torch.Generator().manual_seed(0)
    sources = torch.rand(200, 16, generator=generator)
    away = -100.0 * torch.rand(4096, 16, generator=generator) - 1.0
    near = torch.rand(20 * 4096, 16, generator=generator)
    candidates = torch.cat([away, near])
    found = top_k(sources, candidates, 10)
    expected = sources.double().mm(candidates.double().t()).topk(10)
    assert torch.allclose(found.scores.double(), expected.values, rtol=1e-6)
    assert sum(scored) < 0.1 * sources.shape[0] * near.shape[0]


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1.0, 1e15])
@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_no_bound_is_too_low(wide, scale, precision):
    sources, candidates = wide[0] * scale, wide[1] * scale
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        bounded = Bounded(sources, candidates, 50, 4096)
        group = bounded.group(slice(0, 50))
        for start, stop in [span for spans in bounded.rounds for span in spans]:
            optimistic, slack = group.optimistic((start, stop)), group.slack((start, stop))
            width = stop - start
            rowptr, place = torch.arange(51) * width, torch.arange(start, stop).repeat(50)
            scores = group.scores(rowptr, place, optimistic.flatten()).view(50, width)
            assert (scores <= optimistic).all()
            assert (scores >= optimistic - slack).all()
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_tile_holds_something():
    with pytest.raises(InputError, match="tile is 1 by 1 or larger"):
        top_k(torch.ones(2, 2), torch.ones(9, 2), 1, scorer=InnerProduct(tile=(0, 40)))


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
