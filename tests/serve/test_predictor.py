"""What is asked, what is refused, and what an answer says."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import torch
from serving_toys import (
    CLASSES,
    NODES,
    WIDTH,
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

import tuneup
from tuneup.errors import InputError
from tuneup.serve import Predictor

NEW = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))
LISTS = [["n03", "n10"], [], ["n07", "n07"]]
ITEMS = [f"item {number}" for number in range(30)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def classes(folder):
    labels = ["ant", "bee", "cat", "dog", "eel"]
    graph, model = small_graph(), small_encoder()
    return tuneup.Predictor.load(
        save_artefact(folder / "classes", model, graph, ids=node_ids(), labels=labels)
    )


@pytest.fixture(scope="module")
def links(folder):
    return Predictor.load(
        save_artefact(folder / "links", link_model(), small_graph(), ids=node_ids())
    )


@pytest.fixture(scope="module")
def shop(folder):
    model = recommender(unknown=True)
    place = save_artefact(
        folder / "shop", model, small_pairs(), ids=list(range(100, 120)), items=ITEMS
    )
    return Predictor.load(place)


def test_known_classes_as_a_table_and_one_by_one(classes):
    answers = classes.predict(["n05", "n59", "n05"])
    frame = answers.to_frame(all_classes=True)
    assert frame["id"].to_list() == ["n05", "n59", "n05"]
    assert frame["degree"].to_list()[1] == 0
    best = frame.select(pl.concat_list(pl.col("^p\\(.*$")).list.max())
    assert best.to_series().to_list() == frame["probability"].to_list()
    assert answers[1].degree == 0
    assert answers[0] == answers[2]
    assert [answer.label for answer in answers] == frame["label"].to_list()
    assert set(frame["label"]) <= {"ant", "bee", "cat", "dog", "eel"}
    assert frame.select(pl.sum_horizontal("^p\\(.*$")).to_series().to_list() == pytest.approx(
        [1, 1, 1]
    )


def test_unknown_ids_are_skipped_and_named_if_asked(classes, links, shop):
    answers = classes.predict(["n05", "who", "n59", None, "who"], on_unknown="skip")
    assert answers.to_frame().equals(classes.predict(["n05", "n59"]).to_frame())
    assert answers.skipped == ("who", None)
    assert classes.predict(["n05"]).skipped == ()
    ranked = shop.recommend([100, 7, 101], 3, on_unknown="skip")
    assert ranked.to_frame().equals(shop.recommend([100, 101], 3).to_frame())
    assert ranked.skipped == (7,)
    none = links.links(["who"], 3, on_unknown="skip")
    assert (len(none), len(none.to_frame()), none.skipped) == (0, 0, ("who",))
    with pytest.raises(InputError, match="on_unknown must be 'error' or 'skip'; got 'drop'"):
        classes.predict(["n05"], on_unknown="drop")


def test_new_nodes_carry_their_degree(classes):
    answers = classes.predict_new(NEW, LISTS, ids=["x", "y", "z"])
    assert answers.to_frame()["id"].to_list() == ["x", "y", "z"]
    assert answers.degree.tolist() == [2, 0, 1]
    linked = classes.predict_new(NEW, LISTS, between=[(0, 1), (1, 0)])
    assert linked.degree.tolist() == [3, 1, 1]
    assert linked.to_frame()["id"].to_list() == [0, 1, 2]


def test_features_may_come_as_arrays_or_frames(classes):
    expected = classes.outputs_new(NEW, LISTS)
    frozen = NEW.numpy().astype(np.float64)
    frozen.flags.writeable = False
    for x in (NEW.numpy(), frozen, NEW.double(), pl.DataFrame(NEW.numpy())):
        assert torch.equal(classes.outputs_new(x, LISTS), expected)


class Doubling:
    """A plan of features: one column, repeated."""

    def __init__(self, column):
        self.column = column

    def to_json(self):
        return {"column": self.column}

    def apply(self, frame):
        return frame[self.column].to_torch().float()[:, None].repeat(1, WIDTH)


def test_a_plan_travels_with_the_model(tmp_path):
    place = save_artefact(tmp_path / "m", small_encoder(), small_graph(), plan=Doubling("age"))
    frame = pl.DataFrame({"name": ["a", "b"], "age": [1.0, 2.0]})
    predictor = Predictor.load(place, read_plan=lambda plain: Doubling(**plain))
    expected = predictor.outputs_new(torch.tensor([[1.0] * WIDTH, [2.0] * WIDTH]), [[], []])
    assert torch.equal(predictor.outputs_new(frame, [[], []]), expected)
    with pytest.raises(InputError, match="'name': holds String, and no feature plan"):
        Predictor.load(place).outputs_new(frame, [[], []])


QUESTIONS = [
    (lambda p: p.predict(["n05", "who", "n06"]), r"no node 'who'; it knows 60"),
    (lambda p: p.predict("n05"), "Ids come as a list"),
    (lambda p: p.predict([["n05"]]), "must be a single value"),
    (lambda p: p.predict_new(NEW[:, :3], LISTS), r"reads 12 features .* got \[3, 3\]"),
    (lambda p: p.predict_new(NEW[0], [[]]), r"got \[12\]"),
    (lambda p: p.predict_new(None, LISTS), "reads 12 features a node: give x"),
    (lambda p: p.predict_new(NEW * torch.inf, LISTS), "of new node 0 is .*inf: not finite"),
    (lambda p: p.predict_new(NEW > 0, LISTS), "must be numbers"),
    (lambda p: p.predict_new(NEW, LISTS[:2]), "must be 3 lists of ids"),
    (lambda p: p.predict_new(NEW, [[], ["n01", "?"], []]), r"new node 1: .* no node '\?'"),
    (lambda p: p.predict_new(NEW, [[], 7, []]), "new node 1 must be a list of ids; got 7"),
    (lambda p: p.predict_new(NEW, [[], "n07", []]), "must be a list of ids; got 'n07'"),
    (lambda p: p.predict_new(NEW, [[], [["n07"]], []]), "new node 1: .* a single value"),
    (lambda p: p.predict_new(NEW, LISTS, between=[(0, 3)]), r"\(0, 3\); there are rows 0..2"),
    (lambda p: p.predict_new(NEW, LISTS, between=[(0, 1.5)]), "pairs of rows"),
    (lambda p: p.predict_new(NEW, LISTS, targets=LISTS), "targets are for directed graphs"),
    (lambda p: p.predict_new(NEW, LISTS, ids=["a", "b", "n09"]), "knows node 'n09' already"),
    (lambda p: p.predict_new(NEW, LISTS, ids=["a", "b", "b"]), "'b' comes twice"),
    (lambda p: p.predict_new(NEW[:0], []), "no new node"),
    (lambda p: p.links(["n01"]), "does node-classification: call predict and predict_new"),
    (lambda p: p.recommend_new([[]]), "does node-classification"),
]


def test_bad_questions_are_refused_by_name(classes, subtests):
    for number, (call, words) in enumerate(QUESTIONS):
        with subtests.test(str(number)):
            with pytest.raises(InputError, match=words) as caught:
                call(classes)
            assert len(str(caught.value).splitlines()) == 1


def test_new_nodes_without_features_come_with_their_edges(tmp_path):
    place = save_artefact(tmp_path / "m", small_embedded(), featureless(), ids=node_ids())
    predictor = Predictor.load(place)
    answers = predictor.predict_new(None, LISTS, ids=["x", "y", "z"])
    assert answers.degree.tolist() == [2, 0, 1]
    assert answers.to_frame()["id"].to_list() == ["x", "y", "z"]
    # The last node has neither an edge nor an input of its own: all is unknown about both.
    old = predictor.predict(["n59"]).probabilities
    assert answers.probabilities[1] == pytest.approx(old[0], abs=1e-6)
    with pytest.raises(InputError, match="reads no features, but the edges of a node: give x=None"):
        predictor.predict_new(NEW, LISTS)
    with pytest.raises(InputError, match="no new node"):
        predictor.predict_new(None, [])


def test_links_exclude_the_known_and_the_node_itself(links):
    graph = small_graph().adjacency
    every = links.links(node_ids(), k=NODES)
    z = links.outputs()
    decoder = link_model().head
    for number, answer in enumerate(every):
        known = set(graph.col[graph.rowptr[number] : graph.rowptr[number + 1]].tolist())
        left = [other for other in range(NODES) if other not in known | {number}]
        assert sorted(answer.candidates) == [f"n{other:02}" for other in left]
        assert answer.degree == len(known)
        pair = [int(candidate[1:]) for candidate in answer.candidates]
        with torch.no_grad():
            expected = decoder(z[number].expand(len(pair), -1), z[pair])
        assert answer.scores == pytest.approx(expected.tolist(), abs=1e-5)
        assert list(answer.scores) == sorted(answer.scores, reverse=True)


def test_links_of_new_nodes_exclude_their_neighbours(links):
    answers = links.links_new(NEW, LISTS, k=NODES, between=[(0, 1)])
    assert [len(answer.candidates) for answer in answers] == [58, 60, 59]
    assert not {"n03", "n10"} & set(answers[0].candidates)
    assert answers.degree.tolist() == [3, 1, 1]
    frame = links.links_new(NEW, LISTS, k=4).to_frame()
    assert frame.columns == ["id", "rank", "node", "score", "degree"]
    assert frame["rank"].to_list() == [1, 2, 3, 4] * 3


def test_recommendations_exclude_what_the_user_has(shop):
    pairs = small_pairs()
    answers = shop.recommend([100, 119], k=30)
    mine = set(pairs.item[pairs.user == 0].tolist())
    assert {*answers[0].candidates} == {ITEMS[i] for i in range(30) if i not in mine}
    assert answers[0].degree == len(mine)
    assert answers[1].degree == 0
    assert len(answers[1].candidates) == 30
    frame = shop.recommend([100], k=3).to_frame()
    assert frame.columns == ["id", "rank", "item", "score", "degree"]
    z = shop.outputs()
    scores = z[20:] @ z[0]
    best = [int(item.split()[1]) for item in frame["item"]]
    assert frame["score"].to_list() == pytest.approx(scores[best].tolist(), abs=1e-5)
    with pytest.raises(InputError, match="no user 5; it knows 20, like 100"):
        shop.recommend([5])


def test_a_new_user_gets_items_without_training(shop):
    lists = [["item 3", "item 4"], [], ["item 3", "item 4", "item 3"]]
    answers = shop.recommend_new(lists, k=30, ids=[7, 8, 9])
    assert answers.degree.tolist() == [2, 0, 2]
    assert answers[0].candidates == answers[2].candidates
    assert not {"item 3", "item 4"} & set(answers[0].candidates)
    assert len(answers[1].candidates) == 30
    # Without any item the model knows as little as of user 119, who has none either.
    assert answers[1].candidates == shop.recommend([119], k=30)[0].candidates
    with pytest.raises(InputError, match=r"of new node 0: .* no item 'item 99'"):
        shop.recommend_new([["item 99"]])
    with pytest.raises(InputError, match="knows user 100 already"):
        shop.recommend_new([[]], ids=[100])
    with pytest.raises(InputError, match="reads no features"):
        shop.outputs_new(NEW, LISTS)


def test_ties_go_to_the_smaller_number(tmp_path):
    model = recommender()
    model.inputs.vectors.data[:] = 1.0
    pairs = small_pairs().take(torch.arange(0))
    predictor = Predictor.load(save_artefact(tmp_path / "m", model, pairs, items=ITEMS))
    assert predictor.recommend([0], k=4)[0].candidates == tuple(ITEMS[:4])


def test_embeddings_can_be_exported(classes, shop, tmp_path):
    (table,) = classes.export_embeddings(tmp_path / "v.parquet")
    frame = pl.read_parquet(table)
    assert frame["id"].to_list() == node_ids()
    assert np.array_equal(frame["embedding"].to_numpy(), classes.embeddings().numpy())
    array, names = classes.export_embeddings(tmp_path / "v.npy")
    assert np.array_equal(np.load(array, allow_pickle=False), classes.embeddings().numpy())
    assert pl.read_parquet(names)["id"].to_list() == node_ids()
    written = shop.export_embeddings(tmp_path / "s.npy")
    assert [path.name for path in written] == [
        "s-users.npy",
        "s-users-ids.parquet",
        "s-items.npy",
        "s-items-ids.parquet",
    ]
    assert np.load(written[2]).shape == (30, 8)
    with pytest.raises(InputError, match=r"\.parquet or \.npy"):
        classes.export_embeddings(tmp_path / "v.bin")


def test_labels_are_numbers_without_names(tmp_path):
    place = save_artefact(tmp_path / "m", small_encoder(), small_graph())
    frame = Predictor.load(place).predict([1, 2]).to_frame()
    assert set(frame["label"]) <= set(range(CLASSES))
    assert "node-classification, Adjacency(60 nodes" in repr(Predictor.load(place))
