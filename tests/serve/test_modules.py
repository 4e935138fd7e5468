"""Answers without a folder, and models whose code is the user's own."""

from __future__ import annotations

import json

import pytest
import torch
from serving_toys import (
    CLASSES,
    NODES,
    WIDTH,
    featureless,
    link_model,
    module,
    node_ids,
    recommender,
    small_embedded,
    small_encoder,
    small_graph,
    small_pairs,
)
from torch import nn
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import GraphSAGE, SAGEConv

from tuneup.errors import ArtefactError, InputError
from tuneup.nn import HadamardMLP, InnerProduct, Model, NodeFeatures, UserItemVectors
from tuneup.serve import Predictor
from tuneup.serve.artefact import seal

ARGUMENTS = {
    "in_channels": WIDTH,
    "hidden_channels": 8,
    "num_layers": 2,
    "out_channels": CLASSES,
}
LISTS = [["n03", "n10"], [], ["n07", "n07"]]
NEW = torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(1))


def pyg_data() -> Data:
    graph = small_graph()
    return Data(x=graph.x, edge_index=graph.adjacency.edge_index)


@pytest.fixture
def data() -> Data:
    return pyg_data()


MODELS = {
    "dense": lambda: (small_encoder(), small_graph(), NEW),
    "sparse": lambda: (small_encoder("gcn"), small_graph(sparse=True), NEW),
    "pyg": lambda: (small_encoder("gat"), pyg_data(), NEW),
    "learned": lambda: (small_embedded(), featureless(), None),
    "links": lambda: (link_model(), small_graph(), NEW),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_in_memory_answers_as_its_folder_does(name, tmp_path):
    model, graph, x = MODELS[name]()
    here = Predictor(model, graph, ids=node_ids())
    there = Predictor.load(here.save(tmp_path / "m"))
    assert torch.equal(here.outputs(), there.outputs())
    assert torch.equal(here.embeddings(), there.embeddings())
    assert torch.equal(here.outputs_new(x, LISTS), there.outputs_new(x, LISTS))
    ask, ask_new = (
        (Predictor.links, Predictor.links_new)
        if name == "links"
        else (Predictor.predict, Predictor.predict_new)
    )
    for question, given in ((ask, (node_ids(),)), (ask_new, (x, LISTS))):
        assert question(here, *given).to_frame().equals(question(there, *given).to_frame())
    again = there.save(tmp_path / "again")  # a loaded model may be saved too
    for file in ("weights.safetensors", "graph.safetensors", "ids.parquet", "README.md"):
        assert (again / file).read_bytes() == (tmp_path / "m" / file).read_bytes()


def test_a_recommender_in_memory_on_hetero_data(tmp_path):
    pairs, hetero = small_pairs(), HeteroData()
    hetero["user"].num_nodes, hetero["item"].num_nodes = 20, 30
    hetero["user", "likes", "item"].edge_index = torch.stack([pairs.user, pairs.item])
    hetero["item", "rev_likes", "user"].edge_index = torch.stack([pairs.item, pairs.user])
    model = recommender(unknown=True)
    here, other = Predictor(model, hetero), Predictor(model, pairs)
    there = Predictor.load(here.save(tmp_path / "m"))
    for question in (lambda p: p.recommend(range(20)), lambda p: p.recommend_new([[3, 4], []])):
        frame = question(here).to_frame()
        assert frame.equals(question(there).to_frame())
        assert frame.equals(question(other).to_frame())
    hetero["user", "knows", "user"].edge_index = torch.tensor([[0], [1]])
    hetero["tag"].num_nodes = 1
    with pytest.raises(InputError, match="expected users and items"):
        Predictor(model, hetero)


@pytest.mark.filterwarnings("ignore:.torch.jit.script_method:DeprecationWarning")  # of compile
def test_a_module_of_anyone_answers_for_known_nodes(data):
    model = module().train()
    with torch.no_grad():
        expected = module()(data.x, data.edge_index)
    predictor = Predictor(model, data, ids=node_ids(), labels="abcde")
    assert model.training, "the caller's module is left as it was"
    compiled = Predictor(torch.compile(model), data, ids=node_ids(), labels="abcde")
    assert torch.equal(compiled.outputs(), predictor.outputs())
    answers = predictor.predict(["n05", "n59"])
    torch.testing.assert_close(predictor.outputs(), expected)
    assert answers.best.tolist() == expected[[5, 59]].argmax(1).tolist()
    assert torch.equal(predictor.embeddings(), predictor.outputs())
    with torch.no_grad():
        model.convs[0].lin_l.weight.zero_()
    torch.testing.assert_close(predictor.outputs(), expected)
    with pytest.raises(InputError, match="4 label names for 5 classes"):
        Predictor(model, data, labels="abcd")


class Flat(nn.Module):
    def forward(self, x, edge_index):
        return x.sum(1)


def test_data_that_a_module_would_misread_is_refused(data):
    with pytest.raises(InputError, match="must return numbers"):
        Predictor(Flat(), data)
    data.edge_weight = torch.rand(data.num_edges)
    with pytest.raises(InputError, match="GraphSAGE has no meaning for edge weights"):
        Predictor(module(), data)
    del data.edge_weight
    data.edge_attr = torch.rand(data.num_edges, 2)
    with pytest.raises(InputError, match="edge_attr would be ignored"):
        Predictor(module(), data)
    del data.edge_attr
    data.y = torch.ones(NODES, 3)
    with pytest.raises(InputError, match="several classes a node"):
        Predictor(module(), data)
    del data.y
    data.edge_index = torch.cat([data.edge_index, torch.tensor([[3], [3]])], 1)
    with pytest.warns(UserWarning, match="1 self-loops and 0 repeated"):
        Predictor(module(), data)
    with pytest.raises(InputError, match="arguments describe a module"):
        Predictor(small_encoder(), small_graph()).save("m", arguments={"a": 1})


def test_a_module_is_saved_and_takes_its_weights_again(data, tmp_path):
    predictor = Predictor(module(), data, ids=node_ids())
    place = predictor.save(tmp_path / "m")
    assert json.loads((place / "config.json").read_text())["format"] == 3
    assert "whose code is not part of this folder" in (place / "README.md").read_text()
    given, lazy = GraphSAGE(WIDTH, 8, 2, CLASSES), GraphSAGE(-1, 8, 2, CLASSES)
    before = given.convs[0].lin_l.weight.clone()
    for other in (given, lazy):
        state = torch.get_rng_state()
        loaded = Predictor.load(place, model=other)
        assert torch.equal(torch.get_rng_state(), state)
        assert loaded.predict(["n01"]).to_frame().equals(predictor.predict(["n01"]).to_frame())
    assert torch.equal(given.convs[0].lin_l.weight, before), "a copy takes the weights"
    with pytest.raises(ArtefactError, match=r"has shape \[8, 12\], the GraphSAGE given says"):
        Predictor.load(place, model=GraphSAGE(WIDTH, 9, 2, CLASSES))
    with pytest.raises(ArtefactError, match="unlike the model in the Flat given"):
        Predictor.load(place, model=Flat())
    ours = Predictor(small_encoder(), data).save(tmp_path / "ours")
    with pytest.raises(ArtefactError, match="load it without model="):
        Predictor.load(ours, model=small_encoder())


class Pairs(nn.Module):
    """An encoder of another width than its inputs."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.conv = SAGEConv(width, 6)

    def forward(self, x, edge_index):
        return self.conv(x, edge_index)


def test_modules_are_encoders_of_the_other_tasks(data, tmp_path):
    links = Model(NodeFeatures(), module(), HadamardMLP(CLASSES, 6))
    shop = Model(UserItemVectors(20, 30, 8, unknown=True), Pairs(), InnerProduct())
    for name, model, graph in (("links", links, data), ("shop", shop, small_pairs())):
        ask = Predictor.links if name == "links" else Predictor.recommend
        here = Predictor(model, graph)
        place = here.save(tmp_path / name)
        for given in (model, model.encoder):
            there = Predictor.load(place, model=given)
            assert ask(there, range(20), 5).to_frame().equals(ask(here, range(20), 5).to_frame())


def test_a_class_is_imported_only_from_a_package_that_the_caller_allows(data, tmp_path):
    predictor = Predictor(module(), data)
    place = predictor.save(tmp_path / "m", arguments=ARGUMENTS)
    for allow in ((), ("torch",), ("torch_geometric.nn.conv",), ("torch_geo",), ("",)):
        with pytest.raises(ArtefactError, match=r"only if you allow it.*\('torch_geometric',\)"):
            Predictor.load(place, allow=allow)
    with pytest.raises(InputError, match="allow: got the text"):
        Predictor.load(place, allow="torch_geometric")
    for allow in (("other", "torch_geometric"), ("torch_geometric.nn.models",)):
        assert torch.equal(Predictor.load(place, allow=allow).outputs(), predictor.outputs())
    bare = predictor.save(tmp_path / "bare")
    with pytest.raises(ArtefactError, match="does not say how"):
        Predictor.load(bare, allow=("torch_geometric",))
    with pytest.raises(InputError, match="arguments must hold values that JSON has"):
        predictor.save(tmp_path / "n", arguments={"aggr": nn.ReLU()})


FORGED_CLASSES = [
    ("os:system", "os", "not a torch module"),
    ("json.tool:main", "json", "not a torch module"),
    (
        "torch_geometric.nn.models.basic_gnn:torch.nn.Linear",
        "torch_geometric",
        "not a torch module",
    ),
    ("torch_geometric.nn:Missing", "torch_geometric", "cannot be imported"),
    ("torch_geometric.none:GraphSAGE", "torch_geometric", "cannot be imported"),
    ("torch_geometric.__main__:GraphSAGE", "torch_geometric", "only if you allow it"),
    ("torch_geometric..nn:GraphSAGE", "torch_geometric", "only if you allow it"),
    (".nn:GraphSAGE", "", "only if you allow it"),
    ("torch_geometric", "torch_geometric", "cannot be imported"),
    ("torch_geometric.nn:GCNConv", "torch_geometric", "cannot be built with the arguments"),
    ("torch_geometric.nn:GCN", "torch_geometric", "unlike the model in"),
]


def test_a_forged_class_is_refused(data, tmp_path, subtests):
    place = Predictor(module(), data).save(tmp_path / "m", arguments=ARGUMENTS)
    config = json.loads((place / "config.json").read_text())
    for path, allow, words in FORGED_CLASSES:
        config["model"]["module"]["path"] = path
        (place / "config.json").write_text(json.dumps({**config, "checksum": seal(config)}))
        with subtests.test(path):
            with pytest.raises(ArtefactError, match=words) as caught:
                Predictor.load(place, allow=(allow,))
            assert len(str(caught.value).splitlines()) == 1
