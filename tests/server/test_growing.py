"""Answers on a graph that grows are those of a graph that was built so; the database is the law."""

import random

import polars as pl
import pytest
import torch
from serving_toys import (
    ARCHITECTURES,
    WIDTH,
    close,
    featureless,
    link_model,
    node_ids,
    recommender,
    save_artefact,
    small_embedded,
    small_encoder,
    small_graph,
    small_pairs,
)

from tuneup.errors import InputError
from tuneup.serve import Predictor
from tuneup.server import compact
from tuneup.server.engine import Ask, Engine, Piece, TakenId
from tuneup.server.growing import UnknownId
from tuneup.server.live import Exists, Live, Missing
from tuneup.server.questions import AddNode, NewNode, NewUser
from tuneup.server.store import Reused, Store, Write

MODELS = {
    **{name: (lambda name=name: (small_encoder(name), small_graph())) for name in ARCHITECTURES},
    "directed": lambda: (small_encoder("gcn"), small_graph(undirected=False)),
    "sparse": lambda: (small_encoder("sage"), small_graph(sparse=True)),
    "learned": lambda: (small_embedded("gcn"), featureless()),
    "links": lambda: (link_model(), small_graph()),
}
ITEMS = {
    "lightgcn": {},
    "sage": {"unknown": True},
    "gcn": {"shared": True, "unknown": True},
}


def served(folder, database) -> Engine:
    engine = Engine.load(folder)
    engine.live = Live(engine, database)
    return engine


def write(engine, change, *rows, key=None):
    (found,) = engine.live.commit([Write(change, list(rows), key, repr(rows))])
    if isinstance(found, Exception):
        raise found
    return found.answers[0]


def features(rng):
    return [round(rng.gauss(0, 1), 3) for _ in range(WIDTH)]


def grow(engine, rng, steps=40):
    """Random changes, each checked against a plain set of edges; the answer is what is left."""
    parts = engine.parts
    row, col = parts.graph.row.tolist(), parts.graph.col.tolist()
    ids = engine.predictor.ids.values.to_list()
    edges = {(ids[s], ids[r]) for s, r in zip(col, row, strict=True)}
    alive, undirected = set(ids), parts.graph.undirected
    for step in range(steps):
        if rng.random() < 0.5:
            some = rng.sample(sorted(alive), rng.randint(0, 4))
            name = f"x{step}"
            node = {"id": name, "neighbours": some}
            if parts.width is not None:
                node["features"] = features(rng)
            sent = [] if undirected else rng.sample(sorted(alive), 2)
            if sent:
                node["targets"] = sent
            write(engine, "add-nodes", AddNode.model_validate(node))
            edges |= {(other, name) for other in some} | {(name, other) for other in sent}
            edges |= {(name, other) for other in some} if undirected else set()
            alive.add(name)
        elif rng.random() < 0.5:
            pair = tuple(rng.sample(sorted(alive), 2))
            if pair in edges:
                with pytest.raises(Exists):
                    write(engine, "add-edges", pair)
            else:
                write(engine, "add-edges", pair)
            edges |= {pair, pair[::-1]} if undirected else {pair}
        elif rng.random() < 0.7:
            pair = rng.choice(sorted(edges))
            write(engine, "remove-edges", pair)
            edges -= {pair, pair[::-1]} if undirected else {pair}
        else:
            gone = rng.choice(sorted(alive))
            write(engine, "remove-nodes", (gone,))
            alive.remove(gone)
            edges = {pair for pair in edges if gone not in pair}
    return alive, edges


def answers(engine, kind, **ask):
    whole = Ask(kind, **ask)
    (found,) = engine.answer([Piece(whole, 0, whole.rows)])
    if isinstance(found, Exception):
        raise found
    return found.answers


def alike(first, second):
    """The same answers, to 1e-5; of rankings the scores, as near-ties may change places."""
    for one, two in zip(first, second, strict=True):
        assert (one["id"], one["degree"]) == (two["id"], two["degree"])
        for name in ("probability", "scores"):
            if name in one:
                assert close(torch.tensor(one[name]), torch.tensor(two[name]))
        if "label" in one and one["probability"] > 0.26:
            assert one["label"] == two["label"]


@pytest.mark.parametrize("kind", MODELS)
def test_a_grown_graph_answers_as_one_that_was_built_so(kind, tmp_path):
    """Known, added and new nodes, rankings included; and again after a start from the database."""
    model, graph = MODELS[kind]()
    save_artefact(tmp_path / "old", model, graph, ids=node_ids())
    engine = served(tmp_path / "old", tmp_path / "graph.db")
    rng = random.Random(kind)
    if kind == "links":  # before the changes: what is kept must be brought up to date
        answers(engine, "known", ids=("n01",), k=5)
        answers(engine, "similar", ids=("n01",), k=5)
    alive, edges = grow(engine, rng)
    compact(tmp_path / "old", tmp_path / "graph.db", tmp_path / "new")
    built = Engine.load(tmp_path / "new")
    assert {*built.predictor.ids.values.to_list()} == alive
    found, ids = built.parts.graph, built.predictor.ids.values.to_list()
    pairs = zip(found.col.tolist(), found.row.tolist(), strict=True)
    assert {(ids[s], ids[r]) for s, r in pairs} == edges
    again = served(tmp_path / "old", tmp_path / "graph.db")
    onto_new = served(tmp_path / "new", tmp_path / "graph.db")
    assert onto_new.live.growing.adjacency().num_edges == found.num_edges
    some = tuple(rng.sample(sorted(alive), 12))
    node = {"neighbours": [*some[:3]], **({} if kind == "learned" else {"features": features(rng)})}
    new = (NewNode.model_validate(node), NewNode.model_validate({**node, "neighbours": []}))
    asks = [("known", {"ids": some, "k": 4}), ("new", {"new": new, "k": 4})]
    asks.append(("new", {"new": new, "between": ((0, 1),), "k": 4}))
    asks.append(("similar", {"ids": some, "k": 4}))
    for name, ask in asks:
        expected = answers(built, name, **ask)
        for each in (engine, again, onto_new):
            alike(answers(each, name, **ask), expected)


@pytest.mark.parametrize("kind", ITEMS)
def test_a_recommender_grows_by_users_and_pairs(kind, tmp_path):
    users, items = [f"u{n}" for n in range(20)], [f"i{n}" for n in range(30)]
    model = recommender(kind, **ITEMS[kind])
    save_artefact(tmp_path / "old", model, small_pairs(), ids=users, items=items)
    engine = served(tmp_path / "old", tmp_path / "graph.db")
    answers(engine, "known", ids=("u1",), k=5)
    write(engine, "add-nodes", AddNode(id="new", neighbours=["i3", "i5"]), AddNode(id="none"))
    assert write(engine, "add-nodes", AddNode(id="i7", neighbours=["i7"]))["edges"] == 1  # a user
    write(engine, "remove-nodes", ("i7",))
    write(engine, "add-edges", ("none", "i29"), ("u18", "i28"))
    with pytest.raises(Exists):
        write(engine, "add-edges", ("new", "i3"))
    with pytest.raises(UnknownId):
        write(engine, "add-edges", ("i3", "i5"))
    known = {"ids": ("new", "none", "u18", "u3")}
    strangers = {"new": (NewUser(items=["i1", "i29"]), NewUser())}
    for change in (None, "u2"):
        if change is not None:
            write(engine, "remove-nodes", (change,))
        path = tmp_path / f"new-{change}"
        compact(tmp_path / "old", tmp_path / "graph.db", path)
        built = Engine.load(path)
        assert len(built.predictor.ids) == (22 if change is None else 21)
        asks = [("known", known), ("similar", {"ids": ("i1", "i28")})]
        # Without u2, the mean of all users is another, and new ones enter with that.
        for name, ask in (*asks, ("new", strangers)) if change is None else asks:
            alike(answers(engine, name, k=6, **ask), answers(built, name, k=6, **ask))


@pytest.fixture
def engine(tmp_path):
    save_artefact(tmp_path / "old", small_encoder("gcn"), small_graph(), ids=node_ids())
    return served(tmp_path / "old", tmp_path / "graph.db")


def test_a_write_is_done_whole_or_not_at_all(engine):
    """Each mistake has an answer of its own, and leaves nothing behind."""
    x = [0.0] * WIDTH
    before = engine.live.growing.adjacency().num_edges
    for change, rows, error, words in (
        ("add-nodes", [AddNode(id="a", features=x), AddNode(id="n01", features=x)], TakenId, "n01"),
        ("add-nodes", [AddNode(id="a", features=x, neighbours=["b"])], UnknownId, "'b'"),
        ("add-nodes", [AddNode(id="a", features=x)] * 2, TakenId, "distinct"),
        ("add-nodes", [AddNode(id="a", features=x, neighbours=["a"])], InputError, "itself"),
        ("add-nodes", [AddNode(id="a", features=x[1:])], InputError, "12 features"),
        ("add-edges", [("n01", "n58"), ("n58", "n01")], Exists, "already"),
        ("add-edges", [("n01", "n58"), ("n01", "b")], UnknownId, "'b'"),
        ("add-edges", [("n01", "n01")], InputError, "itself"),
        ("remove-edges", [("n01", "n58")], Missing, "no edge"),
        ("remove-nodes", [("b",)], Missing, "'b'"),
    ):
        with pytest.raises(error, match=words):
            write(engine, change, *rows)
        assert engine.live.growing.adjacency().num_edges == before
    assert engine.live.store.since(0) == []
    both = [AddNode(id="a", features=x, neighbours=["b"]), AddNode(id="b", features=x)]
    assert write(engine, "add-nodes", *both)["edges"] == 1
    write(engine, "remove-nodes", ("n01",))
    assert write(engine, "add-nodes", AddNode(id="n01", features=x))["nodes"] == 1  # free again
    again = Live(engine, engine.live.store.path).growing
    assert again.adjacency().num_edges == engine.live.growing.adjacency().num_edges
    assert again.has_edge(*again.numbers(["b", "a"]).tolist())
    assert again.numbers(["n01"])[0] == engine.live.growing.numbers(["n01"])[0]


def test_a_key_makes_a_repeated_write_one(engine):
    first = write(engine, "add-edges", ("n01", "n58"), key="k1")
    assert write(engine, "add-edges", ("n01", "n58"), key="k1") == {**first, "repeated": True}
    with pytest.raises(Reused):
        write(engine, "add-edges", ("n02", "n58"), key="k1")
    assert len(engine.live.store.since(0)) == 1


def test_processes_with_one_database_see_one_graph(engine, tmp_path):
    other = served(tmp_path / "old", tmp_path / "graph.db")
    write(engine, "add-edges", ("n01", "n58"))
    assert answers(other, "known", ids=("n58",))[0]["degree"] == 1
    write(other, "remove-edges", ("n58", "n01"))
    assert answers(engine, "known", ids=("n58",))[0]["degree"] == 0


def test_what_fails_to_commit_was_never_there(engine, monkeypatch):
    """A disk that fills up: the graph goes back to what is on it."""
    write(engine, "add-edges", ("n01", "n58"))
    good = Store.append

    def fail(self, change, rows):
        good(self, change, rows)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Store, "append", fail)
    with pytest.raises(OSError, match="No space"):
        write(engine, "add-edges", ("n02", "n58"))
    monkeypatch.undo()
    assert answers(engine, "known", ids=("n58", "n01"))[0]["degree"] == 1
    assert len(engine.live.store.since(0)) == 1


def test_a_file_that_is_something_else_is_refused(tmp_path):
    path = tmp_path / "other.db"
    path.write_text("not a database at all, but a text")
    with pytest.raises(InputError, match="not a database"):
        Store(path)
    pl.DataFrame({"a": [1]}).write_csv(path)
    with pytest.raises(InputError, match="not a database"):
        Store(path)


def test_a_module_that_is_not_ours_cannot_grow(tmp_path):
    from serving_toys import module

    predictor = Predictor(module(), small_graph())
    engine = Engine(predictor, "", tmp_path)
    with pytest.raises(InputError, match="without --live"):
        Live(engine, tmp_path / "graph.db")


def test_a_what_if_changes_nothing(engine):
    before = answers(engine, "known", ids=("n01", "n02"))
    row = engine.live.growing.graph.row(1)
    other = engine.predictor.ids[int(row[0])]
    without = answers(engine, "what-if", ids=("n01",), remove=(other,))[0]
    assert without["degree"] == before[0]["degree"] - 1
    assert answers(engine, "known", ids=("n01", "n02")) == before
    write(engine, "remove-edges", ("n01", other))
    alike(answers(engine, "known", ids=("n01",)), [without])
