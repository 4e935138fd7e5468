"""A saved model comes back bit for bit, or not at all."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct

import numpy as np
import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file
from serving_toys import (
    ARCHITECTURES,
    CLASSES,
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

from tuneup.errors import ArtefactError, InputError, OutputError
from tuneup.nn import GCNConv, HadamardMLP, Model
from tuneup.serve import Predictor
from tuneup.serve.artefact import seal, sha256

FILES = ["README.md", "config.json", "graph.safetensors", "ids.parquet", "metrics.json"]
FILES += ["weights.safetensors"]
SEALED = [name for name in FILES if name != "README.md"]
"""Files that answers are computed from."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "model"
    metrics = {"overall": 0.81, "tail": 0.7, "head": 0.9, "seconds": 3}
    return save_artefact(
        folder, small_encoder(), small_graph(), ids=node_ids(), labels="abcde", metrics=metrics
    )


@pytest.fixture
def copy(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "copy")


@pytest.mark.parametrize("sparse", [False, True])
def test_known_nodes_are_answered_bit_for_bit(sparse, tmp_path):
    for architecture in ARCHITECTURES:
        graph, model = small_graph(sparse=sparse), small_encoder(architecture, norm="batch")
        with torch.no_grad():
            expected = model(graph.x, graph.adjacency)
        predictor = Predictor.load(save_artefact(tmp_path / architecture, model, graph))
        assert torch.equal(predictor.outputs(), expected)
        answers = predictor.predict(range(60))
        assert torch.equal(torch.from_numpy(answers.probabilities), expected.softmax(1))
        assert answers.degree.tolist() == graph.adjacency.degree.tolist()


def test_edge_models_come_back_bit_for_bit(tmp_path):
    graph, links = small_graph(), link_model()
    predictor = Predictor.load(save_artefact(tmp_path / "links", links, graph))
    with torch.no_grad():
        assert torch.equal(predictor.outputs(), links.encoder(graph.x, graph.adjacency))
    for kind in ("lightgcn", "gat"):
        model = recommender(kind, shared=True, unknown=True)
        place = save_artefact(tmp_path / kind, model, small_pairs())
        with torch.no_grad():
            expected = model(None, small_pairs().adjacency())
        assert torch.equal(Predictor.load(place).outputs(), expected)


def test_learned_inputs_come_back_bit_for_bit(tmp_path):
    for architecture in ARCHITECTURES:
        graph, model = featureless(), small_embedded(architecture)
        with torch.no_grad():
            expected = model(graph.x, graph.adjacency)
        place = save_artefact(tmp_path / architecture, model, graph, ids=node_ids())
        assert torch.equal(Predictor.load(place).outputs(), expected)
    links = Model(model.inputs, model.encoder, HadamardMLP(CLASSES, 6)).eval()
    place = save_artefact(tmp_path / "links", links, graph)
    assert torch.equal(Predictor.load(place).outputs(), expected)
    config = json.loads((place / "config.json").read_text())
    assert config["format"] == 2, "a version that cannot read it must say so by name"
    assert config["model"]["known"] == 58
    card = (place / "README.md").read_text()
    for words in (
        "60 nodes without features, for each of which 12 numbers were learned",
        "(None, ",
    ):
        assert words in card
    assert "enters as the average node" in card
    assert "Candidates are the nodes it was saved with" in card


def test_learned_inputs_are_saved_with_who_has_them(tmp_path):
    for graph in (small_graph(), small_graph(sparse=True)):
        with pytest.raises(InputError, match="learned inputs of 58 nodes: it is used with"):
            save_artefact(tmp_path / "m", small_embedded(), graph)
    with pytest.raises(InputError, match="reads 12 features, the graph has 58"):
        save_artefact(tmp_path / "m", small_encoder(), featureless())
    assert list(tmp_path.iterdir()) == []


def test_loading_leaves_the_callers_draws_alone(saved):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    Predictor.load(saved)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_folder_is_what_the_reader_expects(saved):
    assert sorted(path.name for path in saved.iterdir()) == FILES
    assert [path.name for path in saved.parent.iterdir()] == ["model"]
    config = json.loads((saved / "config.json").read_text())
    assert config["format"] == 1
    assert "known" not in config["model"], "as every version has written it"
    assert config["task"] == "node-classification"
    assert set(config["files"]) == set(SEALED) - {"config.json"}
    assert config["extras"] == ["README.md"]
    assert pl.read_parquet(saved / "ids.parquet")["id"].to_list() == node_ids()
    card = (saved / "README.md").read_text()
    for words in ("60 nodes", "tail | 0.7", "Limits", "Predictor.load", "a, b, c, d, e"):
        assert words in card


def test_a_file_that_no_answer_reads_may_be_added_edited_or_removed(tmp_path):
    def write(place):
        (place / "report.html").write_text("<p>fine</p>")
        (place / "metrics.json").write_text("not ours")

    place = Predictor(small_encoder(), small_graph()).save(tmp_path / "model", write_extras=write)
    assert (place / "report.html").read_text() == "<p>fine</p>"
    config = json.loads((place / "config.json").read_text())
    assert config["extras"] == ["README.md", "report.html"]
    # Older versions had a checksum for every file.
    others = {name: sha256(place / name) for name in ("README.md", "report.html")}
    for files in (config["files"], {**config["files"], **others}):
        rewrite(place, files=files)
        with (place / "README.md").open("a") as card:
            card.write("Owner: the data team\n")
        (place / "report.html").unlink(missing_ok=True)
        assert len(Predictor.load(place).predict([0, 1])) == 2


def test_whoever_may_read_one_file_may_read_all(saved):
    modes = {path.stat().st_mode & 0o777 for path in saved.iterdir()}
    mask = os.umask(0)
    os.umask(mask)
    assert modes == {0o666 & ~mask}


@pytest.mark.parametrize("name", SEALED)
def test_a_flipped_bit_and_a_cut_or_missing_file_are_noticed(name, copy):
    good = (copy / name).read_bytes()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    for data in (bytes(flipped), good[: len(good) // 2], None):
        if data is None:
            (copy / name).unlink()
        else:
            (copy / name).write_bytes(data)
        with pytest.raises(ArtefactError, match=name) as caught:
            Predictor.load(copy)
        assert len(str(caught.value).splitlines()) == 1


def rewrite(folder, **changes):
    """A configuration that was changed by someone who knows how to seal it."""
    config = json.loads((folder / "config.json").read_text())
    config |= changes
    (folder / "config.json").write_text(json.dumps({**config, "checksum": seal(config)}))


def test_a_newer_format_is_refused_by_name(copy):
    rewrite(copy, format=5, tuneup="9.1.0")
    with pytest.raises(ArtefactError, match=r"format 5, written by tuneup 9\.1\.0.*upgrade"):
        Predictor.load(copy)


def test_what_is_no_artefact_is_told_so(tmp_path):
    with pytest.raises(ArtefactError, match="no such folder"):
        Predictor.load(tmp_path / "nothing")
    with pytest.raises(ArtefactError, match=r"no config\.json in it"):
        Predictor.load(tmp_path)
    (tmp_path / "config.json").write_text('{"format": 1}')
    with pytest.raises(ArtefactError, match="does not describe a model"):
        Predictor.load(tmp_path)


def test_an_index_that_leads_outside_is_refused(copy):
    """The kernels would read foreign memory."""
    good = load_file(copy / "graph.safetensors")
    for part in ("rowptr", "col"):
        tensor = good[part].clone()
        tensor[-1] = 10_000
        replace_tensor(copy, "graph.safetensors", part, tensor)
        with pytest.raises(ArtefactError, match="the edges contain an invalid node"):
            Predictor.load(copy)
        replace_tensor(copy, "graph.safetensors", part, good[part])


def replace_tensor(folder, file, name, value):
    """Write another tensor into a saved model, by someone who knows how to seal it."""
    path = folder / file
    save_file({**load_file(path), name: value}, path)
    files = json.loads((folder / "config.json").read_text())["files"]
    rewrite(folder, files={**files, file: sha256(path)})


OTHER_TYPES = [
    ("graph.safetensors", "rowptr", torch.int32, "'rowptr' holds torch.int32, not torch.int64"),
    ("graph.safetensors", "col", torch.float32, "'col' holds torch.float32, not torch.int64"),
    ("graph.safetensors", "x", torch.int64, "'x' holds torch.int64, not floating point numbers"),
    ("graph.safetensors", "x", torch.float64, "precision: got torch.float32, torch.float64"),
    ("weights.safetensors", "convs.1.lin_l.weight", torch.float16, "precision: got torch.float16"),
    ("weights.safetensors", "convs.1.lin_l.weight", torch.int64, "holds torch.int64"),
]


def test_tensors_of_another_type_are_refused(copy, subtests):
    """They would fail in the middle of an answer."""
    for file, name, dtype, words in OTHER_TYPES:
        good = load_file(copy / file)[name]
        replace_tensor(copy, file, name, good.to(dtype))
        with subtests.test(f"{name} {dtype}"):
            with pytest.raises(ArtefactError, match=words) as caught:
                Predictor.load(copy)
            assert len(str(caught.value).splitlines()) == 1
        replace_tensor(copy, file, name, good)


def test_a_signed_folder_is_loaded_with_its_key_alone(tmp_path):
    key, other = b"k" * 16, b"l" * 16
    predictor = Predictor(small_encoder(), small_graph())
    place = predictor.save(tmp_path / "m", sign_key=key)
    assert torch.equal(Predictor.load(place, verify_key=key).outputs(), predictor.outputs())
    assert len(Predictor.load(place).predict([1])) == 1, "a key is not needed to read"
    with pytest.raises(ArtefactError, match="is not by this key"):
        Predictor.load(place, verify_key=other)
    wrong = load_file(place / "weights.safetensors")["convs.1.lin_l.weight"] + 1
    replace_tensor(place, "weights.safetensors", "convs.1.lin_l.weight", wrong)
    assert len(Predictor.load(place).predict([1])) == 1, "checksums are no signature"
    with pytest.raises(ArtefactError, match="is not by this key"):
        Predictor.load(place, verify_key=key)
    (place / "config.json.sig").write_bytes(b"\xff\x00")
    with pytest.raises(ArtefactError, match="is not by this key"):
        Predictor.load(place, verify_key=key)
    bare = predictor.save(tmp_path / "bare")
    with pytest.raises(ArtefactError, match=r"not signed: there is no config\.json\.sig"):
        Predictor.load(bare, verify_key=key)
    for wrong_key, words in ((b"short", "got 5 bytes"), ("a text of 20 letters", "got a str")):
        with pytest.raises(InputError, match=f"sign_key: {words}; expected at least 16"):
            predictor.save(tmp_path / "n", sign_key=wrong_key)
        with pytest.raises(InputError, match=f"verify_key: {words}; expected at least 16"):
            Predictor.load(place, verify_key=wrong_key)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_neither_saved_nor_served(value, copy, tmp_path):
    name = "convs.1.lin_l.weight"
    model = small_encoder()
    wrong = model.state_dict()[name].clone()
    wrong[0, 0] = value
    model.state_dict()[name].copy_(wrong)
    with pytest.raises(InputError, match=rf"tensor .{name}. of its weights holds NaN"):
        save_artefact(tmp_path / "m", model, small_graph())
    assert not (tmp_path / "m").exists()
    replace_tensor(copy, "weights.safetensors", name, wrong)
    with pytest.raises(ArtefactError, match=rf"weights.safetensors.*{name}.*NaN or infinite"):
        Predictor.load(copy)


def test_features_that_are_not_finite_are_not_served(copy):
    replace_tensor(copy, "graph.safetensors", "x", torch.full((60, 12), float("nan")))
    with pytest.raises(ArtefactError, match=r"graph.safetensors.*'x'.*NaN or infinite"):
        Predictor.load(copy)


class Trap:
    """Shouts when it is unpickled."""

    def __reduce__(self):
        return print, ("unpickled",)


def test_a_pickle_is_never_run(copy, capsys):
    for name in ("weights.safetensors", "graph.safetensors", "ids.parquet"):
        torch.save({"weight": Trap()}, copy / name)
        files = json.loads((copy / "config.json").read_text())["files"]
        rewrite(copy, files={**files, name: sha256(copy / name)})
        with pytest.raises(ArtefactError):
            Predictor.load(copy)
        (copy / name).write_bytes(pickle.dumps(Trap()))
        files = json.loads((copy / "config.json").read_text())["files"]
        rewrite(copy, files={**files, name: sha256(copy / name)})
        with pytest.raises(ArtefactError):
            Predictor.load(copy)
    assert "unpickled" not in capsys.readouterr().out


def test_weights_of_another_shape_are_refused(copy):
    config = json.loads((copy / "config.json").read_text())
    config["model"]["encoder"]["width"] = 16
    rewrite(copy, model=config["model"])
    with pytest.raises(ArtefactError, match=r"has shape \[8, 12\], config.json says \[16, 12\]"):
        Predictor.load(copy)


def test_a_header_that_promises_gigabytes_is_refused(copy):
    path = copy / "weights.safetensors"
    path.write_bytes(struct.pack("<Q", 1 << 40) + b"{}")
    files = json.loads((copy / "config.json").read_text())["files"]
    rewrite(copy, files={**files, path.name: sha256(path)})
    with pytest.raises(ArtefactError, match="do not fit"):
        Predictor.load(copy)


def test_ids_keep_their_type(tmp_path):
    dates = pl.Series([f"2026-01-{k + 1:02}" for k in range(31)]).str.to_date()
    for number, (ids, kind) in enumerate(
        (
            ([f"ä {k}" for k in range(60)], pl.String),
            (list(range(1000, 1060)), pl.Int64),
            (np.arange(60, dtype=np.uint16), pl.Int64),
            (pl.Series(range(60), dtype=pl.UInt16), pl.UInt16),
            (dates, pl.Date),
        )
    ):
        graph = small_graph().induce(torch.arange(len(ids)))
        place = save_artefact(tmp_path / str(number), small_encoder(), graph, ids=ids)
        frame = Predictor.load(place).predict(ids[3:5]).to_frame()
        assert frame["id"].to_list() == list(ids[3:5])
        assert frame["id"].dtype == kind


def test_ids_that_name_nothing_are_refused(tmp_path):
    for ids, words in (
        (["a"] * 60, "'a' comes twice"),
        (["a", "b"], "2 node ids for 60 nodes"),
        ([None, *range(59)], "row 0 is missing"),
        ([[1]] * 60, "single values"),
        (["a", 1, *range(58)], "one type"),
    ):
        with pytest.raises(InputError, match=words):
            save_artefact(tmp_path / "m", small_encoder(), small_graph(), ids=ids)
    assert list(tmp_path.iterdir()) == []


def test_what_could_not_be_built_again_is_refused(tmp_path):
    graph = small_graph()
    odd = small_encoder("gcn")
    odd.convs[1] = GCNConv(8, 8, "doubly-stochastic")
    with pytest.raises(InputError, match="doubly-stochastic weights"):
        save_artefact(tmp_path / "m", odd, graph)
    with pytest.raises(InputError, match="answers on Interactions or HeteroData"):
        save_artefact(tmp_path / "m", recommender(), graph)
    with pytest.raises(InputError, match="answers on a Graph or Data"):
        save_artefact(tmp_path / "m", small_encoder(), small_pairs())
    with pytest.raises(InputError, match="4 label names for 5 classes"):
        save_artefact(tmp_path / "m", small_encoder(), graph, labels="abcd")
    with pytest.raises(InputError, match="all be texts"):
        save_artefact(tmp_path / "m", small_encoder(), graph, labels=["a", 1, 2, 3, 4])
    with pytest.raises(InputError, match="metrics must hold"):
        save_artefact(tmp_path / "m", small_encoder(), graph, metrics={"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_there_is_kept_unless_asked(tmp_path):
    place = save_artefact(tmp_path / "model", small_encoder("sage"), small_graph())
    before = (place / "config.json").read_text()
    with pytest.raises(OutputError, match="not empty"):
        save_artefact(place, small_encoder("gcn"), small_graph())
    assert (place / "config.json").read_text() == before
    save_artefact(place, small_encoder("gcn"), small_graph(), overwrite=True)
    assert Predictor.load(place).model.artefact.blueprint.encoder.architecture == "gcn"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_only_a_saved_model_gives_way(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.txt").write_text("mine")
    with pytest.raises(OutputError, match="not empty"):
        save_artefact(tmp_path / "home", small_encoder(), small_graph(), overwrite=True)
    assert (tmp_path / "home" / "thesis.txt").read_text() == "mine"
