"""Answers from a saved model: for nodes it knows, and for nodes that have just arrived."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import polars as pl
import torch
from torch import Tensor

from tuneup.errors import InputError
from tuneup.graph import Rows
from tuneup.metrics.calibration import UNIT
from tuneup.names import TaskName

from .answers import Classes, Rankings
from .arrivals import Arrivals, Ints
from .export import write_embeddings
from .ids import IdList, Ids, OnUnknown
from .loading import explained, load_artefact
from .plan import FeatureRows, Plan, PlanReader, read_features
from .ranking import known_to_new, known_to_old
from .request import Between, Neighbours, new_ids, read_arrivals
from .serving import ServedModel

_CALLS: dict[TaskName, str] = {
    "node-classification": "predict and predict_new",
    "link-prediction": "links and links_new",
    "recommendation": "recommend and recommend_new",
}


@dataclass(frozen=True, eq=False)
class Predictor:
    """A model that answers; :meth:`load` makes it from a folder.

    Example::

        from tuneup.serve import save_artefact

        save_artefact("model", encoder, graph)
        predictor = tuneup.Predictor.load("model")
        predictor.predict([0, 1])                            # known nodes
        predictor.predict_new(graph.x[:1], neighbours=[[0, 1]])  # a node with edges to 0 and 1

    A new node is answered exactly as if it were inserted into the graph and the whole model run:
    its neighbours' degrees and states change with it.  Each new node of a call is inserted alone,
    but for those with edges between them, which arrive together.  Nothing that arrives is kept, and
    what a new node is ranked against, items or nodes, stays as the graph has it.
    """

    model: ServedModel
    plan: Plan | None = None

    @classmethod
    def load(
        cls,
        folder: Path | str,
        device: torch.device | str = "cpu",
        *,
        read_plan: PlanReader | None = None,
    ) -> Predictor:
        """The model in a folder that ``save_artefact`` wrote.

        Args:
            folder: of the artefact.
            device: where to compute.
            read_plan: makes a feature plan from the JSON that the artefact holds.

        Raises:
            ArtefactError: If the folder is damaged, incomplete or of a newer format.
        """
        artefact, new_user = load_artefact(folder)
        plan = None
        if read_plan is not None and artefact.plan is not None:
            with explained(folder):
                plan = read_plan(artefact.plan)
        for ids in (artefact.ids, artefact.items):
            if ids is not None:
                ids.prepare()
        here = None if new_user is None else new_user.to(device)
        return cls(ServedModel(artefact.to(device), here).prepare(), plan)

    @property
    def task(self) -> TaskName:
        """What the model does."""
        return self.model.artefact.blueprint.task

    @property
    def ids(self) -> Ids:
        """Of the nodes, or of a recommender's users."""
        return self.model.artefact.ids

    @property
    def candidates(self) -> Ids:
        """Ids of what can be an answer or a neighbour: items, or nodes."""
        items = self.model.artefact.items
        return self.ids if items is None else items

    def __repr__(self) -> str:
        artefact = self.model.artefact
        return f"Predictor({artefact.name}: {self.task}, {artefact.adjacency!r})"

    def predict(self, ids: IdList, *, on_unknown: OnUnknown = "error") -> Classes:
        """The class of known nodes.

        Args:
            ids: of the nodes.
            on_unknown: "skip" answers about the known ones if some ids are unknown, and names the
                others in the answer's ``skipped``; "error" refuses.
        """
        self._expect("node-classification")
        nodes, skipped = self._wanted(ids, on_unknown)
        outputs, degree = self.model.of_old(nodes), self.model.degree(nodes)
        return replace(self._classes(self.ids.take(nodes), outputs, degree), skipped=skipped)

    def predict_new(
        self,
        x: FeatureRows | None,
        neighbours: Neighbours,
        *,
        targets: Neighbours | None = None,
        between: Between | None = None,
        ids: IdList | None = None,
    ) -> Classes:
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

    def links(self, ids: IdList, k: int = 10, *, on_unknown: OnUnknown = "error") -> Rankings:
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
    ) -> Rankings:
        """The ``k`` known nodes that each new node is most likely to be linked to next.

        The other arguments are those of :meth:`predict_new`.
        """
        self._expect("link-prediction")
        named, features, arrived = self._arrive(x, neighbours, None, between, ids)
        z = self.model.of_new(features, arrived)
        return self._rank(named, z, known_to_new(arrived, 0), arrived.degree, k)

    def recommend(self, ids: IdList, k: int = 10, *, on_unknown: OnUnknown = "error") -> Rankings:
        """The ``k`` best items of known users, but those that they have.

        ``on_unknown`` is that of :meth:`predict`.
        """
        self._expect("recommendation")
        return self._rank_old(ids, k, on_unknown)

    def recommend_new(
        self, items: Neighbours, k: int = 10, *, ids: IdList | None = None
    ) -> Rankings:
        """The ``k`` best items of new users, given the items that each has already, or none.

        A user enters with the mean embedding of the trained users; one without any item with what
        the model learned for such users, if it did (``UserItemVectors(unknown=True)``).
        """
        self._expect("recommendation")
        named = new_ids(ids, len(items), self.ids)
        arrived = self._arrivals(len(items), items, None, None)
        z = self.model.of_new(self.model.user_inputs(arrived.degree), arrived)
        known = known_to_new(arrived, self.model.first)
        return self._rank(named, z, known, arrived.degree, k)

    def embeddings(self) -> Tensor:
        """Embeddings of all known nodes ``[N, d]``; a recommender's users first, then its items.

        They are the model's outputs, but of a classifier, whose outputs are scores of classes, the
        hidden states before these.
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
        named = new_ids(ids, count, self.ids)
        return named, features, self._arrivals(count, neighbours, targets, between)

    def _inputs(self, x: FeatureRows | None, count: int) -> Tensor:
        """What new nodes enter with ``[m, d]``; without features there are ``count`` of them."""
        old, unknown = self.model.artefact.x, self.model.unknown
        if old is None:
            raise InputError("A recommender reads no features: call recommend_new.")
        if unknown is None and x is None:
            raise InputError(f"The model reads {old.shape[1]} features a node: give x.")
        if x is None:
            assert unknown is not None
            return unknown.expand(count, -1)
        if unknown is not None:
            raise InputError("The model reads no features, but the edges of a node: give x=None.")
        return read_features(x, old.shape[1], self.plan)

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
            self.model.artefact.adjacency,
            count,
            neighbours,
            targets=targets,
            between=between,
        )

    def _classes(self, ids: pl.Series, outputs: Tensor, degree: Ints) -> Classes:
        artefact = self.model.artefact
        temperature = artefact.temperature or UNIT
        senders = torch.from_numpy(degree).to(outputs.device)
        probabilities = temperature.probabilities(outputs, senders).cpu().numpy()
        return Classes(ids, probabilities, degree, artefact.class_names)

    def _wanted(self, ids: IdList, on_unknown: OnUnknown) -> tuple[Ints, tuple[Any, ...]]:
        """The numbers of known ids, and the ids that are skipped."""
        if on_unknown not in get_args(OnUnknown):
            raise InputError(f"on_unknown must be 'error' or 'skip'; got {on_unknown!r}.")
        skipped: tuple[Any, ...] = ()
        if on_unknown == "skip":
            ids, skipped = self.ids.split(ids)
        return self.ids.numbers(ids), skipped

    def _rank_old(self, ids: IdList, k: int, on_unknown: OnUnknown) -> Rankings:
        nodes, skipped = self._wanted(ids, on_unknown)
        known = known_to_old(self.model.graph, nodes, self.model.first)
        degree = self.model.degree(nodes)
        found = self._rank(self.ids.take(nodes), self.model.of_old(nodes), known, degree, k)
        return replace(found, skipped=skipped)

    def _rank(self, ids: pl.Series, z: Tensor, known: Rows, degree: Ints, k: int) -> Rankings:
        best = self.model.rank(z, known, k)
        numbers, scores = best.ids.cpu().numpy(), best.scores.cpu().numpy()
        return Rankings(ids, numbers, scores, degree, self.candidates)
