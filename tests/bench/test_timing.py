"""How long runs should take: what was recorded, and products of factors for what was not."""

from itertools import product

import pytest

from tuneup.bench.timing import Place, Timings, read_timings

KINDS = {"nodes": 1.0, "links": 20.0}
DATASETS = {"small": 3.0, "large": 24.0}
ARCHITECTURES = {"gcn": 1.0, "sage": 2.0}
METHODS = {"base": 1.0, "tuneup": 0.5, "tail": 10.0}
PLACES = {
    Place(*(name for name, _ in each)): each[0][1] * each[1][1] * each[2][1] * each[3][1]
    for each in product(*(d.items() for d in (KINDS, DATASETS, ARCHITECTURES, METHODS)))
}


def test_what_was_run_takes_as_long_again():
    place = Place("nodes", "small", "gcn", "base")
    timings = Timings([(place, 10.0), (place, 20.0), (place, 900.0)])
    assert timings.of(place) == 20.0


@pytest.mark.parametrize(
    "unknown",
    [
        lambda place: place == Place("links", "large", "sage", "tail"),
        lambda place: place.kind == "links" and place.dataset == "large",
        lambda place: place.kind == "links" and place.method == "tail",
        lambda place: place.dataset == "large" and place.architecture == "sage",
    ],
    ids=["a cell", "a graph of a task", "a method of a task", "a graph with an architecture"],
)
def test_seconds_are_products(unknown):
    timings = Timings((place, each) for place, each in PLACES.items() if not unknown(place))
    for place, seconds in PLACES.items():
        assert timings.of(place) == pytest.approx(seconds, rel=0.4), place  # they range over 480


def test_an_interaction_is_learned():
    """A method that is cheap on one task says nothing against its cost on another."""
    slower = {
        p: s * (4.0 if (p.kind, p.method) == ("links", "tail") else 1.0) for p, s in PLACES.items()
    }
    left = Place("links", "large", "sage", "tail")
    timings = Timings((place, each) for place, each in slower.items() if place != left)
    assert timings.of(left) == pytest.approx(slower[left], rel=0.35)


def test_what_nothing_is_known_of_is_not_guessed():
    timings = Timings(PLACES.items())
    for place in (
        Place("pairs", "small", "gcn", "base"),
        Place("nodes", "huge", "gcn", "base"),
        Place("nodes", "small", "gat", "base"),
        Place("nodes", "small", "gcn", "localaug"),
    ):
        assert timings.of(place) is None
    assert Timings(()).of(Place("nodes", "small", "gcn", "base")) is None


def test_a_run_of_no_time_breaks_nothing():
    quick = Place("nodes", "small", "gcn", "base")
    timings = Timings([*PLACES.items(), (quick, 0.0), (quick, 0.0)])
    assert timings.of(quick) == 0.0
    assert Timings([(quick, 0.0)]).of(quick) == 0.0
    assert Timings([(quick, 0.0)]).of(quick._replace(method="tuneup")) is None


def test_records_of_all_tasks_are_read(recorded):
    timings = read_timings(recorded)
    kinds = {place.kind for place in timings.known}
    assert kinds == {"node-classification", "recommendation"}
    # DropEdge was run on nodes alone; here it is guessed for pairs.
    assert timings.of(Place("recommendation", "gowalla", "gcn", "dropedge")) > 0
