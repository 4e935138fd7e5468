"""Answers from a model: for nodes it knows, and for nodes that have just arrived."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import polars as pl
import torch
from torch import Tensor, nn

from tuneup.data import Graph, Interactions, graph_from, interactions_from
from tuneup.errors import InputError
from tuneup.graph import Rows
from tuneup.metrics import Temperature
from tuneup.metrics.calibration import UNIT
from tuneup.metrics.topk import INNER_PRODUCT, top_k
from tuneup.names import TaskName
from tuneup.nn import Classes, HadamardMLP, HadamardScorer, Model, NodeFeatures
from tuneup.nn.model import unwrapped
from tuneup.tables import IdMap

from . import hub
from .answers import ClassAnswers, RankingAnswers, write_embeddings
from .arrivals import (
    Arrivals,
    Between,
    FeatureReader,
    FeatureRows,
    IdList,
    Ints,
    Neighbours,
    OnUnknown,
    PlanReader,
    id_map,
    id_series,
    names_of_new,
    numbers_of,
    positions,
    read_arrivals,
    read_features,
)
from .artefact import Artefact, check_key, explained, load_artefact
from .config import Blueprint, Config, GraphSizes, as_json
from .modules import factory_path
from .serving import ServedModel

_CALLS: dict[TaskName, str] = {
    "node-classification": "predict and predict_new",
    "link-prediction": "links and links_new",
    "recommendation": "recommend and recommend_new",
}


@dataclass(frozen=True, eq=False)
class _Asked:
    """Nodes that are asked about, known or new.

    Args:
        ids: what they are called in the answer ``[n]``.
        outputs: of the model ``[n, d]``.
        degree: number of senders ``[n]``.
        listed: nodes that are no candidates for each, where candidates are ranked.
        skipped: ids that are left out.
    """

    ids: pl.Series
    outputs: Tensor
    degree: Ints
    listed: Rows | None = None
    skipped: tuple[Any, ...] = ()


class Predictor:
    """A trained model that answers, on the graph that it is given; its kind says the task.

    A new node is answered exactly as if it were inserted into the graph and the whole model run:
    its neighbours' degrees and states change with it.  Each new node of a call is inserted alone,
    but for those with edges between them, which arrive together.  Nothing that arrives is kept, and
    what a new node is ranked against, items or nodes, stays as the graph has it.

    Example::

        predictor = tuneup.Predictor(encoder, graph)
        predictor.predict([0, 1]).to_frame()                     # known nodes
        predictor.predict_new(graph.x[:1], neighbours=[[0, 1]])  # a node with edges to 0 and 1
        predictor.save("model")
        predictor = tuneup.Predictor.load("model")

    Args:
        model: a ``Model``, or any module called as ``model(x, edge_index)`` that classifies nodes.
            It is copied: training it on does not change the answers.
        data: what predictions are made on, with all edges that are known by now: a ``Graph``, a PyG
            ``Data`` with ``x`` and ``edge_index``; of a recommender ``Interactions``, or a PyG
            ``HeteroData`` with one kind of edge, (user, ..., item).  Where users have pairs here
            but had none in training, call ``fill_untrained`` of the model's inputs first.
        ids: the user's ids of nodes, or of users; by default 0, 1, 2, ...
        items: those of a recommender's items.
        labels: name of each class.
        plan: how columns become features.
        temperature: of a classifier: what its outputs are divided by so that their softmax is
            calibrated, as ``NodeClassification.temperature(model)`` finds it on validation nodes.
        metrics: what was measured; "overall", "tail" and "head" are shown in the model card.
        name: what to call the model.
        columns: what the columns of its tables were called, by what they hold ("id", "source",
            "target", "user", "item"): `tuneup predict` looks for these first.
        depth: how many layers of messages a module that is not tuneup's own has at least; measured
            when the first new node comes, and refused then if outputs depend on the whole graph.

    Raises:
        InputError: If model and data do not belong together.
    """

    model: ServedModel
    plan: FeatureReader | None

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        *,
        ids: IdList | None = None,
        items: IdList | None = None,
        labels: Sequence[str | int] = (),
        plan: FeatureReader | None = None,
        temperature: Temperature | None = None,
        metrics: Mapping[str, Any] | None = None,
        name: str | None = None,
        columns: Mapping[str, str] | None = None,
        depth: int | None = None,
    ) -> None:
        model = unwrapped(model)
        if not isinstance(model, Model):
            model = Model(NodeFeatures(), model, Classes())
        model = model.with_encoder(unwrapped(model.encoder))
        blueprint, found = Blueprint.of(model), read_data(data)
        recommends = blueprint.task == "recommendation"
        if isinstance(found, Interactions) != recommends:
            what = "Interactions or HeteroData" if recommends else "a Graph or Data"
            raise InputError(f"A model for {blueprint.task} answers on {what}; got {data!r}.")
        if isinstance(found, Interactions):
            sizes = (blueprint.users, blueprint.items)
            if sizes != (found.num_users, found.num_items):
                raise InputError(f"The model knows {sizes} users and items, but data is {found!r}.")
            adjacency, x = found.adjacency(), None
            known = id_map(ids, found.num_users, "user")
            answers = id_map(items, found.num_items, "item")
        else:
            if items is not None:
                raise InputError("Only a recommender has items; its nodes have ids.")
            if found.multi_label:
                raise InputError("data: got several classes a node; a predictor answers with one.")
            adjacency, x = found.adjacency, found.x
            known, answers = id_map(ids, found.num_nodes, "node"), None
        model = deepcopy(model).to(adjacency.device).eval().requires_grad_(False)
        if blueprint.module is not None:
            width = _width_of_outputs(model, x, adjacency)
            blueprint = blueprint.with_module(out_channels=width, depth=depth)
        elif depth is not None:
            raise InputError("depth is for modules that are not tuneup's own: leave it out.")
        config = Config(
            name or found.name,
            blueprint.task,
            GraphSizes.of(adjacency, x),
            blueprint,
            list(labels),
            None if plan is None else plan.to_json(),
            {},
            dict(columns or {}),
            temperature,
        )
        artefact = Artefact(config, model, adjacency, known, answers, x, metrics or {})
        self.model, self.plan = ServedModel(artefact), plan

    @classmethod
    def load(
        cls,
        folder: Path | str,
        device: torch.device | str = "cpu",
        *,
        read_plan: PlanReader | None = None,
        model: nn.Module | None = None,
        allow: Sequence[str] = (),
        verify_key: bytes | None = None,
    ) -> Predictor:
        """The model in a folder that :meth:`save` wrote.

        A module that is not tuneup's own is described by the folder, and its code is not in it: it
        is passed as ``model``, or built from the class and arguments that the folder names, if
        ``allow`` has the class's package.

        Args:
            folder: of the artefact.
            device: where to compute.
            read_plan: makes a feature plan from the JSON that the artefact holds.
            model: a module like the one saved; a copy of it takes the weights.
            allow: packages that a class may be imported from, as in ``("my_package",)``.
            verify_key: key that the folder must be signed with, as ``save`` took it.

        Raises:
            ArtefactError: If the folder is damaged, incomplete or of a newer format.
        """
        check_key("verify_key", verify_key)
        predictor = cls.__new__(cls)
        with explained(folder):
            artefact = load_artefact(folder, model, allow, verify_key)
            plan, module = artefact.config.plan, artefact.blueprint.module
            predictor.plan = None if read_plan is None or plan is None else read_plan(plan)
            predictor.model = ServedModel(artefact.to(device)).prepare()
            if module is not None:
                found, expected = predictor.model.outputs.shape, module.out_channels
                if found[1:] != (expected,):
                    raise InputError(f"{list(found)} outputs, config.json says {expected} a node")
        return predictor

    def save(
        self,
        folder: Path | str,
        *,
        arguments: Mapping[str, Any] | None = None,
        factory: Callable[..., nn.Module] | None = None,
        write_extras: Callable[[Path], object] | None = None,
        overwrite: bool = False,
        sign_key: bytes | None = None,
    ) -> Path:
        """Write model, graph and ids as a folder of open files, whole or not at all.

        Args:
            folder: must not exist yet, or be empty.
            arguments: what the class of a module that is not tuneup's own is called with, in values
                that JSON has: with them ``load(folder, allow=...)`` can build it.
            factory: a function to call in place of the class; its annotation says that it returns
                a module.
            write_extras: called with the folder, to write further files into it: a report, a log.
            overwrite: whether a saved model in the folder is replaced; other folders never are.
            sign_key: key to sign the folder with (HMAC-SHA256), 16 random bytes or more. Who loads
                it with the same ``verify_key`` knows that nobody without the key changed it.

        Raises:
            InputError: If something cannot be saved.
            OutputError: If the folder is taken or cannot be written.
        """
        check_key("sign_key", sign_key)
        artefact = self.described(arguments, factory)
        return artefact.save(
            folder, write_extras=write_extras, overwrite=overwrite, sign_key=sign_key
        )

    save_pretrained = hub.save_pretrained
    push_to_hub = hub.push_to_hub
    from_pretrained = classmethod(hub.from_pretrained)

    def described(
        self,
        arguments: Mapping[str, Any] | None = None,
        factory: Callable[..., nn.Module] | None = None,
    ) -> Artefact:
        """What is saved, with the description of a module that is not tuneup's own."""
        artefact = self.model.artefact
        if arguments is None and factory is None:
            return artefact
        module = artefact.blueprint.module
        if module is None:
            raise InputError("arguments describe a module that is not tuneup's own: leave out.")
        plain = json.loads(as_json(dict(arguments or {}), "arguments"))
        path = module.path if factory is None else factory_path(factory)
        described = artefact.blueprint.with_module(path=path, arguments=plain)
        return replace(artefact, config=replace(artefact.config, model=described))

    @property
    def task(self) -> TaskName:
        """What the model does."""
        return self.model.artefact.blueprint.task

    @property
    def ids(self) -> IdMap:
        """Of the nodes, or of a recommender's users."""
        return self.model.artefact.ids

    @property
    def candidates(self) -> IdMap:
        """Ids of what can be an answer or a neighbour: items, or nodes."""
        items = self.model.artefact.items
        return self.ids if items is None else items

    def __repr__(self) -> str:
        artefact = self.model.artefact
        return f"Predictor({artefact.config.name}: {self.task}, {artefact.adjacency!r})"

    def predict(self, ids: IdList, *, on_unknown: OnUnknown = "error") -> ClassAnswers:
        """The class of known nodes.

        Args:
            ids: of the nodes.
            on_unknown: "skip" answers about the known ones if some ids are unknown, and names the
                others in the answer's ``skipped``; "error" refuses.
        """
        return self._classes(self._known("node-classification", ids, on_unknown))

    def predict_new(
        self,
        x: FeatureRows | None,
        neighbours: Neighbours,
        *,
        targets: Neighbours | None = None,
        between: Between | None = None,
        ids: IdList | None = None,
    ) -> ClassAnswers:
        """The class of new nodes.

        Args:
            x: their features ``[m, d]``, or rows that the feature plan reads; ``None`` if the model
                learned inputs in place of features: new nodes enter with the mean of these.
            neighbours: for each the known nodes that it has an edge with, none included; of a
                directed graph those with an edge to it. Where the graph's edges have weights, a
                mapping of such nodes to weights.
            targets: of a directed graph, for each the known nodes that it has an edge to.
            between: edges between new nodes, by row: these are inserted together.
            ids: what to call them in the answer; by default by row.
        """
        asked = self._new("node-classification", x, neighbours, targets, between, ids)
        return self._classes(asked)

    def links(self, ids: IdList, k: int = 10, *, on_unknown: OnUnknown = "error") -> RankingAnswers:
        """The ``k`` nodes that each known node is most likely to be linked to, and is not yet.

        ``on_unknown`` is that of :meth:`predict`.
        """
        return self._rank(self._known("link-prediction", ids, on_unknown), k)

    def links_new(
        self,
        x: FeatureRows | None,
        neighbours: Neighbours,
        k: int = 10,
        *,
        between: Between | None = None,
        ids: IdList | None = None,
    ) -> RankingAnswers:
        """The ``k`` known nodes that each new node is most likely to be linked to next.

        The other arguments are those of :meth:`predict_new`.
        """
        return self._rank(self._new("link-prediction", x, neighbours, None, between, ids), k)

    def recommend(
        self, ids: IdList, k: int = 10, *, on_unknown: OnUnknown = "error"
    ) -> RankingAnswers:
        """The ``k`` best items of known users, but those that they have.

        ``on_unknown`` is that of :meth:`predict`.
        """
        return self._rank(self._known("recommendation", ids, on_unknown), k)

    def recommend_new(
        self, items: Neighbours, k: int = 10, *, ids: IdList | None = None
    ) -> RankingAnswers:
        """The ``k`` best items of new users, given the items that each has already, or none.

        A user enters with the mean embedding of the trained users; one without any item with what
        the model learned for such users, if it did (``UserItemVectors(unknown=True)``).
        """
        return self._rank(self._new("recommendation", None, items, None, None, ids), k)

    def embeddings(self) -> Tensor:
        """Embeddings of all known nodes ``[N, d]``; a recommender's users first, then its items.

        They are the model's outputs, but of a classifier, whose outputs are scores of classes, the
        hidden states before these (where its module is tuneup's own).
        """
        return self.model.embeddings

    def embed_new(
        self,
        x: FeatureRows | None,
        neighbours: Neighbours,
        *,
        targets: Neighbours | None = None,
        between: Between | None = None,
    ) -> Tensor:
        """The same of new nodes ``[m, d]``; arguments as for :meth:`predict_new`."""
        return self.model.embed(*self._arrive(x, neighbours, targets, between))

    def outputs(self) -> Tensor:
        """Outputs of all known nodes ``[N, out]``; a classifier's are before the temperature."""
        return self.model.outputs

    def outputs_new(
        self,
        x: FeatureRows | None,
        neighbours: Neighbours,
        *,
        targets: Neighbours | None = None,
        between: Between | None = None,
    ) -> Tensor:
        """The same of new nodes ``[m, out]``; arguments as for :meth:`predict_new`."""
        return self.model.of_new(*self._arrive(x, neighbours, targets, between))

    def export_embeddings(self, path: Path | str) -> tuple[Path, ...]:
        """Write all embeddings for a vector index; see :func:`write_embeddings`."""
        artefact = self.model.artefact
        return write_embeddings(Path(path), self.embeddings(), artefact.ids, artefact.items)

    def _known(self, task: TaskName, ids: IdList, on_unknown: OnUnknown) -> _Asked:
        self._expect(task)
        if on_unknown not in get_args(OnUnknown):
            raise InputError(f"on_unknown must be 'error' or 'skip'; got {on_unknown!r}.")
        wanted = id_series(ids)
        found = (numbers_of if on_unknown == "error" else positions)(self.ids, wanted)
        skipped = tuple(dict.fromkeys(wanted.filter(found < 0).to_list()))
        nodes = torch.from_numpy(found[found >= 0])
        neighbours = self.model.graph.neighbours
        listed = None
        if task != "node-classification":
            listed = neighbours.take(nodes)
            if self.model.first == 0:  # else they are users, who are no candidates
                listed = listed.append(nodes)
        named, degree = self.ids.values.gather(nodes.numpy()), neighbours.degree(nodes).numpy()
        return _Asked(named, self.model.of_old(nodes), degree, listed, skipped)

    def _new(
        self,
        task: TaskName,
        x: FeatureRows | None,
        neighbours: Neighbours,
        targets: Neighbours | None,
        between: Between | None,
        ids: IdList | None,
    ) -> _Asked:
        self._expect(task)
        inputs, arrived = self._arrive(x, neighbours, targets, between)
        named = names_of_new(ids, len(inputs), self.ids)
        listed = None if task == "node-classification" else arrived.old_neighbours()
        return _Asked(named, self.model.of_new(inputs, arrived), arrived.degree, listed)

    def _expect(self, task: TaskName) -> None:
        if self.task != task:
            raise InputError(f"This model does {self.task}: call {_CALLS[self.task]}.")

    def _arrive(
        self,
        x: FeatureRows | None,
        neighbours: Neighbours,
        targets: Neighbours | None,
        between: Between | None,
    ) -> tuple[Tensor, Arrivals]:
        """What new nodes enter with ``[m, d]``, and their edges, checked."""
        model, width = self.model, self.model.num_features
        if width is None and x is not None:
            raise InputError("The model reads no features, but the edges of a node: give x=None.")
        if width is not None and x is None:
            raise InputError(f"The model reads {width} features a node: give x.")
        features = None if width is None else read_features(x, width, self.plan)
        arrived = read_arrivals(
            self.candidates,
            model.first,
            model.graph,
            len(neighbours) if features is None else len(features),
            neighbours,
            targets=targets,
            between=between,
        )
        return model.inputs_of_new(arrived.degree) if features is None else features, arrived

    def _classes(self, asked: _Asked) -> ClassAnswers:
        artefact = self.model.artefact
        temperature = artefact.config.temperature or UNIT
        senders = torch.from_numpy(asked.degree).to(asked.outputs.device)
        probabilities = temperature.probabilities(asked.outputs, senders).cpu().numpy()
        names = artefact.class_names
        return ClassAnswers(asked.ids, probabilities, asked.degree, names, asked.skipped)

    def _rank(self, asked: _Asked, k: int) -> RankingAnswers:
        head, first, z = self.model.artefact.model.head, self.model.first, asked.outputs
        assert asked.listed is not None
        best = top_k(
            z,
            self.model.outputs[first:],
            k,
            known=Rows(asked.listed.rowptr.to(z.device), asked.listed.col.to(z.device) - first),
            scorer=HadamardScorer(head) if isinstance(head, HadamardMLP) else INNER_PRODUCT,
        )
        numbers, scores = best.ids.cpu().numpy(), best.scores.cpu().numpy()
        return RankingAnswers(
            asked.ids, numbers, scores, asked.degree, self.candidates, asked.skipped
        )


def read_data(data: Any) -> Graph | Interactions:
    """What a model answers on, from tuneup's own data or from PyG's."""
    if isinstance(data, Graph | Interactions):
        return data
    kinds = getattr(data, "edge_types", None)  # not by its class: importing PyG takes seconds
    if kinds is not None:
        kinds = [kind for kind in kinds if not kind[1].startswith("rev_") and kind[0] != kind[2]]
        if len(kinds) != 1 or len(data.node_types) != 2:
            raise InputError(
                f"data: got a HeteroData with nodes {data.node_types} and edges {data.edge_types}; "
                "expected users and items and one kind of edge between them. For other models, "
                "data.to_homogeneous() gives a Data."
            )
        users, items = (int(data[side].num_nodes) for side in kinds[0][::2])
        edges = data[kinds[0]].edge_index
        return interactions_from(edges[0], edges[1], users, items, "model")
    if getattr(data, "edge_attr", None) is not None:
        raise InputError(
            "data.edge_attr would be ignored: a predictor reads weights of edges (edge_weight), "
            "and no features. Remove it (del data.edge_attr) to predict without."
        )
    graph = graph_from(data, name="model")
    loops, repeated = graph.adjacency.num_self_loops, graph.adjacency.num_duplicates
    if loops or repeated:
        warnings.warn(
            f"data.edge_index has {loops} self-loops and {repeated} repeated edges; they are left "
            "out, as in training with tuneup.",
            stacklevel=3,
        )
    return graph


@torch.no_grad()
def _width_of_outputs(model: Model, x: Any, adjacency: Any) -> int:
    """Width of the outputs of a module that is not ours, from one pass."""
    z = model(x, adjacency)
    if not isinstance(z, Tensor) or z.dim() != 2 or not z.is_floating_point():
        found = f"{z.dtype} of shape {list(z.shape)}" if isinstance(z, Tensor) else type(z).__name__
        raise InputError(
            f"{type(model.encoder).__name__}(x, edge_index) must return numbers [nodes, width]; "
            f"got {found}."
        )
    return z.shape[1]
