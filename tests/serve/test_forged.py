"""A config.json written by someone else: refused in one line, or a model that answers."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from serving_toys import (
    featureless,
    link_model,
    module,
    recommender,
    save_artefact,
    small_embedded,
    small_encoder,
    small_graph,
    small_pairs,
    weighted,
)

from tuneup.errors import InputError
from tuneup.metrics import Temperature
from tuneup.runtime import peak_rss
from tuneup.serve import Predictor
from tuneup.serve.artefact import seal, sha256
from tuneup.tables import FeaturePlan

Config = dict[str, Any]

MODELS = {
    "gat": lambda: (small_encoder("gat"), small_graph()),
    "featureless": lambda: (small_embedded("gcn", layers=1), featureless(False)),
    "links": lambda: (link_model(), small_graph()),
    "module": lambda: (module(), small_graph()),
    "weighted": lambda: (small_encoder("gcn"), weighted(small_graph())),
    "light": lambda: (recommender(shared=True), small_pairs()),
}

DEEP: list[Any] = []
for _ in range(400):
    DEEP = [DEEP]

VALUES = [None, True, -1, 10**9, 10**30, float("nan"), "x", "recommendation", {"x": 1}, DEEP]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    place = tmp_path_factory.mktemp("saved")
    for name, make in MODELS.items():
        given = {"temperature": Temperature(0.5, 2.0)} if name == "gat" else {}
        save_artefact(place / name, *make(), **given)
    return place


def test_the_models_answer_as_they_are(saved):
    for name in MODELS:
        answer(saved / name)


def answer(folder) -> None:
    """Load a model and ask it everything that does not depend on its task by name."""
    given = module() if folder.name == "module" else None
    predictor = Predictor.load(folder, read_plan=FeaturePlan.from_json, model=given)
    repr(predictor)
    known = predictor.ids.values.head(2).to_list()
    some = predictor.candidates.values.head(2).to_list()
    x = None
    if predictor.task != "recommendation" and predictor.model.unknown is None:
        x = small_graph().x[:1]
    if predictor.task == "node-classification":
        plain = predictor.model.graph.weight is None
        lists = [some if plain else dict.fromkeys(some, 1.0)]
        frames = [predictor.predict(known)]
        if given is None:  # whose reach would be measured each time
            frames.append(predictor.predict_new(x, lists))
    elif predictor.task == "link-prediction":
        frames = [predictor.links(known, 2), predictor.links_new(x, [some], 2)]
    else:
        frames = [predictor.recommend(known, 2), predictor.recommend_new([some], 2)]
    for each in frames:
        each.to_frame()


def places(config: Config) -> Iterator[tuple[str, ...]]:
    """Where a value stands, at every depth."""
    for key, value in config.items():
        yield (key,)
        if isinstance(value, dict):
            yield from ((key, *rest) for rest in places(value))


def changed(config: Config, place: tuple[str, ...], value: Any) -> Config:
    """The configuration with another value, or without it if that is ``...``."""
    config = copy.deepcopy(config)
    inner = config
    for key in place[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return config


def seal_up(folder, config: Config) -> None:
    """Write a configuration as someone would who knows how to seal it."""
    plain = {key: value for key, value in config.items() if key != "checksum"}
    text = json.dumps({**plain, "checksum": seal(plain)})  # NaN included, unlike sealed
    (folder / "config.json").write_text(text)


@pytest.mark.parametrize("name", ["gat", "featureless", "light", "module", "weighted"])
def test_every_change_of_every_value_is_refused_or_harmless(name, saved, tmp_path):
    folder = shutil.copytree(saved / name, tmp_path / name)
    config = json.loads((folder / "config.json").read_text())
    before, harmless, refusals = peak_rss(), 0, []
    for place in places(config):
        if name != "gat" and place[0] not in ("model", "graph"):
            continue  # the same for all
        for value in [..., *VALUES]:
            seal_up(folder, changed(config, place, value))
            try:
                answer(folder)
                harmless += 1
            except InputError as error:
                refusals.append(str(error))
            except BaseException as error:
                raise AssertionError(f"{place} = {value!r} gives {error!r}") from error
    assert all(len(text.splitlines()) == 1 and len(text) < 600 for text in refusals)
    assert len(refusals) > 5 * len(config)
    assert harmless > (len(VALUES) if name == "gat" else 0), "a version may say anything of itself"
    assert peak_rss() - before < 1 << 29


FORGERIES = [
    ("gat", ("model", "encoder", "num_layers"), 10**9, "num_layers must be at most"),
    ("gat", ("model", "encoder", "heads"), 0, "heads"),
    ("gat", ("model", "encoder", "width"), -4, "model.encoder.width must be a whole number"),
    ("gat", ("model", "encoder", "width"), 16, "'convs.0.*' has shape .* config.json says"),
    ("gat", ("model", "encoder"), None, "model.encoder must not be null"),
    ("gat", ("model", "encoder", "rows"), 3, "model.encoder has the unknown key 'rows'"),
    ("gat", ("model",), [1, 2], r"model must be an object; got \[1, 2\]"),
    ("gat", ("model", "task"), "clustering", "model.task must be one of node-classification"),
    ("gat", ("task",), "recommendation", "no checksum of users.parquet"),
    ("gat", ("files",), ..., "files is missing"),
    ("gat", ("files", "ids.parquet"), ..., "files has no checksum of ids.parquet"),
    ("gat", ("labels",), {"a": 1}, "labels must be a list"),
    ("gat", ("graph", "layout"), "none", "layout"),
    ("gat", ("graph", "nodes"), 10**18, "graph.nodes"),
    ("light", ("model", "layers"), 10**9, "model.layers must be"),
    ("links", ("task",), "node-classification", "model.task is link-prediction, but"),
    ("light", ("model", "users"), 21, "users"),
    ("links", ("model", "encoder", "in_channels"), 9, "'encoder.convs.0.* has shape"),
]


def test_what_is_wrong_is_named(saved, tmp_path, subtests):
    for name, place, value, words in FORGERIES:
        with subtests.test(f"{name} {place} {value}"):
            folder = shutil.copytree(saved / name, tmp_path / name, dirs_exist_ok=True)
            config = json.loads((folder / "config.json").read_text())
            seal_up(folder, changed(config, place, value))
            with pytest.raises(InputError, match=words):
                Predictor.load(folder)


NO_OBJECTS = [b"", b"\x00\xff\xfe", b"[]", b"null", b"[" * 100_000, b'{"a":' * 100_000, b"1" * 9999]


@pytest.mark.parametrize("file", ["config.json", "metrics.json"])
def test_a_file_that_is_no_object_of_json_is_refused(file, saved, tmp_path):
    folder = shutil.copytree(saved / "gat", tmp_path / "model")
    for text in NO_OBJECTS:
        (folder / file).write_bytes(text)
        if file != "config.json":
            config = json.loads((saved / "gat" / "config.json").read_text())
            seal_up(folder, changed(config, ("files", file), sha256(folder / file)))
        with pytest.raises(InputError, match=file) as caught:
            Predictor.load(folder)
        assert len(str(caught.value).splitlines()) == 1
