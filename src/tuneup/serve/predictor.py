"""Answers from a model: for nodes it knows, and for nodes that have just arrived."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import polars as pl
import torch
from torch import Tensor, nn

from tuneup.data import Interactions
from tuneup.errors import InputError
from tuneup.graph import Rows
from tuneup.metrics import Temperature
from tuneup.metrics.calibration import UNIT
from tuneup.metrics.topk import INNER_PRODUCT, top_k
from tuneup.names import TaskName
from tuneup.nn import Classes, HadamardMLP, HadamardScorer, Model, NodeFeatures, UserItemVectors
from tuneup.nn.model import unwrapped
from tuneup.tables import IdMap

from .answers import ClassAnswers, RankingAnswers, write_embeddings
from .arrivals import Arrivals, Ints
from .artefact import Artefact, checked_arguments, read_data, width_of_outputs
from .blueprint import Blueprint
from .loading import explained, load_artefact
from .request import (
    Between,
    FeatureReader,
    FeatureRows,
    IdList,
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
from .schema import Config, GraphSizes
from .serving import ServedModel

_CALLS: dict[TaskName, str] = {
    "node-classification": "predict and predict_new",
    "link-prediction": "links and links_new",
    "recommendation": "recommend and recommend_new",
}


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
            It is copied: training it on does not change the answers.  Only tuneup's own ``Encoder``
            and ``LightGCN`` answer for new nodes.
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
    ) -> None:
        model = unwrapped(model)
        if not isinstance(model, Model):
            model = Model(NodeFeatures(), model, Classes())
        model = model.with_encoder(unwrapped(model.encoder))
        blueprint = Blueprint.of(model)
        recommends, found = blueprint.task == "recommendation", read_data(data)
        if isinstance(found, Interactions) != recommends:
            what = "Interactions or HeteroData" if recommends else "a Graph or Data"
            raise InputError(f"A model for {blueprint.task} answers on {what}; got {data!r}.")
        if isinstance(found, Interactions):
            known = (blueprint.users, blueprint.items)
            if known != (found.num_users, found.num_items):
                raise InputError(f"The model knows {known} users and items, but data is {found!r}.")
            adjacency, x, count = found.adjacency(), None, found.num_users
        else:
            if items is not None:
                raise InputError("Only a recommender has items; its nodes have ids.")
            if found.multi_label:
                raise InputError("data: got several classes a node; a predictor answers with one.")
            adjacency, x, count = found.adjacency, found.x, found.num_nodes
        model = deepcopy(model).to(adjacency.device).eval().requires_grad_(False)
        if blueprint.module is not None or adjacency.weight is not None:
            width = width_of_outputs(model, x, adjacency)  # refuses weights without a meaning
            if blueprint.module is not None:
                blueprint = blueprint.with_module(out_channels=width)
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
        artefact = Artefact(
            config,
            model,
            adjacency,
            id_map(ids, count, "user" if recommends else "node"),
            id_map(items, found.num_items, "item") if isinstance(found, Interactions) else None,
            x,
            metrics or {},
        )
        new_user = None
        if isinstance(model.inputs, UserItemVectors):
            new_user = model.inputs.mean_user(adjacency).detach()
        self.model, self.plan = ServedModel(artefact, new_user), plan

    @classmethod
    def load(
        cls,
        folder: Path | str,
        device: torch.device | str = "cpu",
        *,
        read_plan: PlanReader | None = None,
        model: nn.Module | None = None,
        allow: Sequence[str] = (),
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

        Raises:
            ArtefactError: If the folder is damaged, incomplete or of a newer format.
        """
        artefact, new_user = load_artefact(folder, model, allow)
        predictor = cls.__new__(cls)
        predictor.plan = None
        with explained(folder):
            if read_plan is not None and artefact.config.plan is not None:
                predictor.plan = read_plan(artefact.config.plan)
        for ids in (artefact.ids, artefact.items):
            if ids is not None and len(ids):
                _ = ids.finder  # now, not at the first question
        here = None if new_user is None else new_user.to(device)
        predictor.model = ServedModel(artefact.to(device), here).prepare()
        module = artefact.blueprint.module
        if module is not None:
            with explained(folder):
                found, expected = predictor.model.outputs.shape, module.out_channels
                if found[1:] != (expected,):
                    raise InputError(f"{list(found)} outputs, config.json says {expected} a node")
        return predictor

    def save(
        self,
        folder: Path | str,
        *,
        arguments: Mapping[str, Any] | None = None,
        write_extras: Callable[[Path], object] | None = None,
        overwrite: bool = False,
    ) -> Path:
        """Write model, graph and ids as a folder of open files, whole or not at all.

        Args:
            folder: must not exist yet, or be empty.
            arguments: what the class of a module that is not tuneup's own is called with, in values
                that JSON has: with them ``load(folder, allow=...)`` can build it.
            write_extras: called with the folder, to write further files into it: a report, a log.
            overwrite: whether a saved model in the folder is replaced; other folders never are.

        Raises:
            InputError: If something cannot be saved.
            OutputError: If the folder is taken or cannot be written.
        """
        artefact = self.model.artefact
        if arguments is not None:
            if artefact.blueprint.module is None:
                raise InputError("arguments describe a module that is not tuneup's own: leave out.")
            described = artefact.blueprint.with_module(arguments=checked_arguments(arguments))
            artefact = replace(artefact, config=replace(artefact.config, model=described))
        return artefact.save(folder, write_extras=write_extras, overwrite=overwrite)

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
        self._expect("node-classification")
        nodes, skipped = self._wanted(ids, on_unknown)
        outputs, degree = self.model.of_old(nodes), self.model.degree(nodes)
        answers = self._classes(self.ids.values.gather(nodes), outputs, degree)
        return replace(answers, skipped=skipped)

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
                directed graph those with an edge to it.
            targets: of a directed graph, for each the known nodes that it has an edge to.
            between: edges between new nodes, by row: these are inserted together.
            ids: what to call them in the answer; by default by row.
        """
        self._expect("node-classification")
        named, features, arrived = self._arrive(x, neighbours, targets, between, ids)
        return self._classes(named, self.model.of_new(features, arrived), arrived.degree)

    def links(self, ids: IdList, k: int = 10, *, on_unknown: OnUnknown = "error") -> RankingAnswers:
        """The ``k`` nodes that each known node is most likely to be linked to, and is not yet.

        ``on_unknown`` is that of :meth:`predict`.
        """
        self._expect("link-prediction")
        return self._rank_old(ids, k, on_unknown)

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
        self._expect("link-prediction")
        named, features, arrived = self._arrive(x, neighbours, None, between, ids)
        return self._rank_new(named, self.model.of_new(features, arrived), arrived, k)

    def recommend(
        self, ids: IdList, k: int = 10, *, on_unknown: OnUnknown = "error"
    ) -> RankingAnswers:
        """The ``k`` best items of known users, but those that they have.

        ``on_unknown`` is that of :meth:`predict`.
        """
        self._expect("recommendation")
        return self._rank_old(ids, k, on_unknown)

    def recommend_new(
        self, items: Neighbours, k: int = 10, *, ids: IdList | None = None
    ) -> RankingAnswers:
        """The ``k`` best items of new users, given the items that each has already, or none.

        A user enters with the mean embedding of the trained users; one without any item with what
        the model learned for such users, if it did (``UserItemVectors(unknown=True)``).
        """
        self._expect("recommendation")
        named = names_of_new(ids, len(items), self.ids)
        arrived = self._arrivals(len(items), items, None, None)
        z = self.model.of_new(self.model.user_inputs(arrived.degree), arrived)
        return self._rank_new(named, z, arrived, k)

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
        _, features, arrived = self._arrive(x, neighbours, targets, between, None)
        return self.model.embed(features, arrived)

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
        _, features, arrived = self._arrive(x, neighbours, targets, between, None)
        return self.model.of_new(features, arrived)

    def export_embeddings(self, path: Path | str) -> tuple[Path, ...]:
        """Write all embeddings for a vector index; see :func:`write_embeddings`."""
        artefact = self.model.artefact
        return write_embeddings(Path(path), self.embeddings(), artefact.ids, artefact.items)

    def _expect(self, task: TaskName) -> None:
        if self.task != task:
            raise InputError(f"This model does {self.task}: call {_CALLS[self.task]}.")

    def _wanted(self, ids: IdList, on_unknown: OnUnknown) -> tuple[Ints, tuple[Any, ...]]:
        """The numbers of known ids, and the ids that are skipped."""
        if on_unknown not in get_args(OnUnknown):
            raise InputError(f"on_unknown must be 'error' or 'skip'; got {on_unknown!r}.")
        wanted = id_series(ids)
        if on_unknown == "error":
            return numbers_of(self.ids, wanted), ()
        found = positions(self.ids, wanted)
        skipped = dict.fromkeys(wanted.filter(found < 0).to_list())
        return found[found >= 0], tuple(skipped)

    def _arrive(
        self,
        x: FeatureRows | None,
        neighbours: Neighbours,
        targets: Neighbours | None,
        between: Between | None,
        ids: IdList | None,
    ) -> tuple[pl.Series, Tensor, Arrivals]:
        """Names, features and edges of new nodes, checked."""
        features = self._inputs(x, len(neighbours))
        count = features.shape[0]
        named = names_of_new(ids, count, self.ids)
        return named, features, self._arrivals(count, neighbours, targets, between)

    def _inputs(self, x: FeatureRows | None, count: int) -> Tensor:
        """What new nodes enter with ``[m, d]``; without features there are ``count`` of them."""
        old, unknown = self.model.artefact.x, self.model.unknown
        if old is None:
            raise InputError("A recommender reads no features: call recommend_new.")
        if x is not None:
            if unknown is not None:
                raise InputError(
                    "The model reads no features, but the edges of a node: give x=None."
                )
            return read_features(x, old.shape[1], self.plan)
        if unknown is None:
            raise InputError(f"The model reads {old.shape[1]} features a node: give x.")
        return unknown.expand(count, -1)

    def _arrivals(
        self,
        count: int,
        neighbours: Neighbours,
        targets: Neighbours | None,
        between: Between | None,
    ) -> Arrivals:
        return read_arrivals(
            self.candidates,
            self.model.first,
            self.model.graph,
            count,
            neighbours,
            targets=targets,
            between=between,
        )

    def _classes(self, ids: pl.Series, outputs: Tensor, degree: Ints) -> ClassAnswers:
        artefact = self.model.artefact
        temperature = artefact.config.temperature or UNIT
        senders = torch.from_numpy(degree).to(outputs.device)
        probabilities = temperature.probabilities(outputs, senders).cpu().numpy()
        return ClassAnswers(ids, probabilities, degree, artefact.class_names)

    def _rank_old(self, ids: IdList, k: int, on_unknown: OnUnknown) -> RankingAnswers:
        """Ranks for known nodes, but for their neighbours and themselves."""
        nodes, skipped = self._wanted(ids, on_unknown)
        first = self.model.first
        listed = self.model.graph.neighbours.take(torch.from_numpy(nodes))
        degree = listed.count.numpy()
        known = Rows(listed.rowptr, listed.col - first)
        if first == 0:  # else they are users, who are no candidates
            known = known.append(torch.from_numpy(nodes))
        answers = self._rank(
            self.ids.values.gather(nodes), self.model.of_old(nodes), known, degree, k
        )
        return replace(answers, skipped=skipped)

    def _rank_new(self, ids: pl.Series, z: Tensor, arrived: Arrivals, k: int) -> RankingAnswers:
        """Ranks for new nodes, but for their neighbours."""
        listed = arrived.old_neighbours()
        known = Rows(listed.rowptr, listed.col - self.model.first)
        return self._rank(ids, z, known, arrived.degree, k)

    def _rank(self, ids: pl.Series, z: Tensor, known: Rows, degree: Ints, k: int) -> RankingAnswers:
        head = self.model.artefact.model.head
        best = top_k(
            z,
            self.model.outputs[self.model.first :],
            k,
            known=Rows(known.rowptr.to(z.device), known.col.to(z.device)),
            scorer=HadamardScorer(head) if isinstance(head, HadamardMLP) else INNER_PRODUCT,
        )
        numbers, scores = best.ids.cpu().numpy(), best.scores.cpu().numpy()
        return RankingAnswers(ids, numbers, scores, degree, self.candidates)
