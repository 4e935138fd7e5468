"""One loaded version of a model, which answers pieces of questions, several at a time."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import polars as pl
import torch
from torch import Tensor, nn

from tuneup.errors import ArtefactError, InputError
from tuneup.graph import Rows
from tuneup.metrics.topk import top_k
from tuneup.serve import ClassAnswers, Predictor, RankingAnswers
from tuneup.tables import FeaturePlan

from .growing import Arrival, Growing, unknown_ids
from .parts import Parts
from .patched import NONE, Ints
from .questions import NewNode, NewUser

Kind = Literal["known", "new", "similar", "similar-new", "what-if", "look", "write"]
"""What is computed together: questions of one kind."""

_ROUTES = {
    "node-classification": "POST /predict and /predict/new",
    "link-prediction": "POST /links",
    "recommendation": "POST /recommend",
}
_VERSION = 12
"""Characters of a checksum that name a version."""


@dataclass(frozen=True, eq=False)
class Ask:
    """A question in the terms of the engine.

    Args:
        kind: of question.
        ids: known nodes, as texts.
        new: new nodes or users.
        between: edges between new nodes, by row.
        k: candidates to rank.
        skip: whether unknown ids are left out and named.
        probabilities: whether those of every class are wanted.
        add: of a what-if: nodes to join with; ``remove`` to part from.
        write: a change of the graph.
    """

    kind: Kind
    ids: tuple[str, ...] = ()
    new: tuple[NewNode | NewUser, ...] = ()
    between: tuple[tuple[int, int], ...] = ()
    k: int = 1
    skip: bool = False
    probabilities: bool = False
    add: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    write: Any = None

    @property
    def rows(self) -> int:
        """Nodes that are asked about."""
        return len(self.ids) + len(self.new) or 1

    @property
    def is_whole(self) -> bool:
        """Whether it cannot be answered piece by piece."""
        return bool(self.between) or self.kind in ("what-if", "look", "write")


@dataclass(frozen=True, eq=False)
class Piece:
    """Some rows of a question, from ``start`` to ``stop``."""

    ask: Ask
    start: int
    stop: int

    @property
    def ids(self) -> tuple[str, ...]:
        """Known nodes."""
        return self.ask.ids[self.start : self.stop]

    @property
    def new(self) -> tuple[NewNode | NewUser, ...]:
        """New nodes."""
        return self.ask.new[self.start : self.stop]

    @property
    def whole(self) -> Piece:
        """All rows of the question."""
        return Piece(self.ask, 0, self.ask.rows)


@dataclass(eq=False)
class Reply:
    """Answers to a piece, as plain values, and the ids that were skipped."""

    answers: list[dict[str, Any]]
    skipped: list[Any] = field(default_factory=list)


@dataclass(eq=False)
class Engine:
    """A version of a model, ready to answer; all calls come from one thread.

    Args:
        predictor: the model.
        version: what this version is called.
        folder: of the model.
        live: the graph with all that has arrived; ``None`` where nothing can.
    """

    predictor: Predictor
    version: str
    folder: Path
    live: Any = None
    filled: bool = False
    """Whether the outputs of all known nodes are at hand."""

    @classmethod
    def load(cls, folder: Path, allow: Sequence[str] = ()) -> Engine:
        """A model, verified, with its first answer given.

        Raises:
            ArtefactError: If it is damaged, or replaced while it is read.
        """
        version = folder_version(folder)
        predictor = Predictor.load(folder, read_plan=FeaturePlan.from_json, allow=allow)
        if folder_version(folder) != version:
            raise ArtefactError(f"The model in {folder} was replaced while it was read.")
        engine = cls(predictor, version, folder)
        engine.first_answer()
        return engine

    @property
    def by_field(self) -> bool:
        """Whether known nodes are answered on their own surroundings.

        Of a classifier this needs no pass over all nodes; rankings need one in any case.
        """
        if self.live is not None:
            return True
        classifies = self.predictor.task == "node-classification"
        weighted = self.parts.graph.weight is not None  # which a field of known nodes has none of
        return classifies and not self.filled and self.parts.is_ours and not weighted

    def fill(self) -> None:
        """Make what spares later questions work; may run beside the thread that answers."""
        if self.live is None:
            self.predictor.outputs()
            self.filled = True

    def first_answer(self) -> None:
        """Answer about one known node, which makes what all questions read."""
        ask = Ask("known", ids=(str(self.predictor.ids[0]),))
        found = self.answer([Piece(ask, 0, 1)])[0]
        if isinstance(found, Exception):
            raise found

    @cached_property
    def parts(self) -> Parts:
        """The model taken apart."""
        return Parts.of(self.predictor)

    @cached_property
    def _still(self) -> Growing:
        """The graph as it was saved, for questions that change it in thought."""
        return Growing(self.parts)

    @property
    def growing(self) -> Growing:
        """The graph that is served."""
        return self._still if self.live is None else self.live.growing

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """What was measured."""
        found: dict[str, Any] = json.loads((self.folder / "metrics.json").read_bytes())
        return found

    def answer(self, pieces: Sequence[Piece]) -> list[Reply | Exception]:
        """Answers to pieces of one kind; of one that is refused, the reason.

        Checks come before work, so that halving a batch with a bad piece in it costs little.
        """
        try:
            return [*self._answer(pieces)]
        except Exception as error:
            if len(pieces) == 1:
                return [self._reason(pieces[0], error)]
        middle = len(pieces) // 2
        return self.answer(pieces[:middle]) + self.answer(pieces[middle:])

    def _reason(self, piece: Piece, error: Exception) -> Exception:
        """The error in terms of the whole question: its rows are counted from the first."""
        if piece.start == 0 or not isinstance(error, InputError):
            return error
        try:
            self._answer([piece.whole])
        except InputError as found:
            return found
        return error

    def _answer(self, pieces: Sequence[Piece]) -> list[Reply]:
        kind = pieces[0].ask.kind
        if kind == "write":
            raise TypeError("writes have an order, which a batch does not")
        if kind == "look":
            return [Reply([self._look(piece.ask.ids[0], piece.ask.k)]) for piece in pieces]
        if kind == "what-if":
            return [self._what_if(piece.ask) for piece in pieces]
        if self.live is not None:
            self.live.catch_up()
        known = kind in ("known", "similar")
        return self._known(pieces) if known else self._new(pieces)

    # Known nodes

    def _known(self, pieces: Sequence[Piece]) -> list[Reply]:
        similar = pieces[0].ask.kind == "similar"
        ids, skipped = [], []
        for piece in pieces:
            own, left = list(piece.ids), []
            if piece.ask.skip:
                found = self._numbers(own, similar)
                left = [own[row] for row in np.flatnonzero(found < 0)]
                own = [own[row] for row in np.flatnonzero(found >= 0)]
            ids.append(own)
            skipped.append(list(dict.fromkeys(left)))
        flat = [each for own in ids for each in own]
        asks = [piece.ask for piece in pieces]
        counts = [len(own) for own in ids]
        if not flat:
            return [Reply([], left) for left in skipped]
        if similar:
            answers = self._similar(flat, max(ask.k for ask in asks))
        elif self.by_field:
            answers = self._grown_known(flat, asks)
        else:
            k = max(ask.k for ask in asks)
            answers = self._plain(self._predict(flat, k), asks)
        return _split(answers, asks, counts, skipped)

    def _predict(self, ids: list[str], k: int) -> ClassAnswers | RankingAnswers:
        task, column = self.predictor.task, pl.Series("id", ids, dtype=pl.String)
        if task == "node-classification":
            return self.predictor.predict(column)
        if task == "link-prediction":
            return self.predictor.links(column, k)
        return self.predictor.recommend(column, k)

    def _numbers(self, ids: Sequence[str], similar: bool) -> Ints:
        known = self.predictor.candidates if similar else self.predictor.ids
        if self.live is not None:
            return self.growing.numbers(ids, known)
        found: Ints = known.positions(pl.Series("id", ids, dtype=pl.String)).numpy()
        return found

    def _grown_known(self, ids: list[str], asks: Sequence[Ask]) -> list[dict[str, Any]]:
        growing = self.growing
        numbers = growing.known(ids)
        z, degree = growing.outputs(numbers), growing.degree(numbers)
        named = growing.names(numbers)
        if self.predictor.task == "node-classification":
            return self._classes(named, z, degree, asks)
        known = growing.graph.take(torch.from_numpy(numbers))
        if not self.parts.first:
            known = known.append(torch.from_numpy(numbers))
        return self._ranked(named, z, degree, known, max(ask.k for ask in asks))

    # New nodes

    def _new(self, pieces: Sequence[Piece]) -> list[Reply]:
        asks = [piece.ask for piece in pieces]
        counts = [piece.stop - piece.start for piece in pieces]
        for piece in pieces:
            if piece.start == 0:  # of the whole question
                self._check_names(piece)
        new = [each for piece in pieces for each in piece.new]
        names = [self._name(piece, row) for piece in pieces for row in range(len(piece.new))]
        k = max(ask.k for ask in asks)
        if isinstance(new[0], NewUser):
            answers = self._new_users([each for each in new if isinstance(each, NewUser)], names, k)
            return _split(answers, asks, counts)
        nodes = [each for each in new if isinstance(each, NewNode)]
        x = self._features(pieces)
        between, start = [], 0
        for piece, count in zip(pieces, counts, strict=True):
            between += [(start + s, start + t) for s, t in _checked(piece.ask.between, count)]
            start += count
        if self.live is not None or asks[0].kind == "similar-new":
            answers = self._grown_new(pieces, nodes, names, x, k)
        else:
            answers = self._plain(self._predict_new(nodes, x, between, k), asks, names)
        return _split(answers, asks, counts)

    def _predict_new(
        self, nodes: Sequence[NewNode], x: Tensor | None, between: list[tuple[int, int]], k: int
    ) -> ClassAnswers | RankingAnswers:
        lists = [pl.Series("id", texts(node.neighbours), dtype=pl.String) for node in nodes]
        if self.predictor.task == "link-prediction":
            return self.predictor.links_new(x, lists, k, between=between or None)
        targets = None
        if any(node.targets is not None for node in nodes):
            targets = [pl.Series("id", texts(n.targets or ()), dtype=pl.String) for n in nodes]
        elif not self.parts.graph.undirected:
            targets = [pl.Series("id", [], dtype=pl.String) for _ in nodes]
        return self.predictor.predict_new(x, lists, targets=targets, between=between or None)

    def _new_users(
        self, users: Sequence[NewUser], names: list[Any], k: int
    ) -> list[dict[str, Any]]:
        if self.live is None:
            lists = [pl.Series("id", texts(user.items), dtype=pl.String) for user in users]
            return self._plain(self.predictor.recommend_new(lists, k), (), names)
        growing = self.growing
        arrivals = [
            Arrival(self._ends(user.items, row, "neighbours")) for row, user in enumerate(users)
        ]
        z, degree = growing.of_new(None, arrivals)
        return self._ranked(names, z, degree, _rows([each.senders for each in arrivals]), k)

    def _grown_new(
        self,
        pieces: Sequence[Piece],
        nodes: Sequence[NewNode],
        names: list[Any],
        x: Tensor | None,
        k: int,
    ) -> list[dict[str, Any]]:
        growing, embed = self.growing, pieces[0].ask.kind == "similar-new"
        arrivals = [self.arrival(node, row) for row, node in enumerate(nodes)]
        found, degrees, start = [], [], 0
        for piece in pieces:
            stop = start + piece.stop - piece.start
            own, rows = arrivals[start:stop], None if x is None else x[start:stop]
            between = piece.ask.between
            z, degree = (
                growing.of_group(rows, own, between, embed=embed)
                if between
                else growing.of_new(rows, own, embed=embed)
            )
            found.append(z)
            degrees.append(degree)
            start = stop
        z, degree = torch.cat(found), np.concatenate(degrees)
        known = _rows([each.senders for each in arrivals])
        if embed:
            best = growing.nearest(z, _rows([NONE] * len(z)), k)
            return self._listed(names, best.ids.numpy(), best.scores.numpy(), degree)
        if self.predictor.task == "node-classification":
            return self._classes(names, z, degree, [piece.ask for piece in pieces])
        return self._ranked(names, z, degree, known, k)

    def arrival(self, node: NewNode, row: int) -> Arrival:
        """The edges of a new node, by numbers."""
        if node.targets is not None and self.parts.graph.undirected:
            raise InputError("targets are for directed graphs: here an edge goes both ways.")
        targets = self._ends(node.targets or (), row, "targets")
        return Arrival(self._ends(node.neighbours, row, "neighbours"), targets)

    def _ends(self, ids: Sequence[int | str], row: int, name: str) -> Ints:
        known = self.predictor.candidates
        try:
            return np.unique(self.growing.known(texts(ids), known))
        except InputError as error:
            raise type(error)(f"{name} of new node {row}: {error}") from error

    def _name(self, piece: Piece, row: int) -> Any:
        given = piece.new[row].id
        return piece.start + row if given is None else given

    def _check_names(self, piece: Piece) -> None:
        named = [str(each.id) for each in piece.ask.new if each.id is not None]
        if len(set(named)) < len(named):
            ((twice, _),) = Counter(named).most_common(1)
            raise InputError(f"new node ids must be distinct; {twice!r} comes twice.")
        if not named:
            return
        taken = np.flatnonzero(self._numbers(named, similar=False) >= 0)
        if taken.size:
            raise taken_id(self.predictor.ids.kind, named[int(taken[0])])

    def _features(self, pieces: Sequence[Piece]) -> Tensor | None:
        """Features of new nodes ``[m, d]``; ``None`` where the model reads none."""
        parts = [self.features_of(piece.new) for piece in pieces]
        found = [each for each in parts if each is not None]
        return torch.cat(found) if found else None

    def features_of(self, nodes: Sequence[NewNode | NewUser]) -> Tensor | None:
        """Features of new nodes ``[m, d]``, checked; ``None`` where the model reads none."""
        width, plan = self.parts.width, self.predictor.plan
        rows: list[Sequence[float]] = []
        columns: list[dict[str, Any]] = []
        for row, node in enumerate(nodes):
            features = node.features if isinstance(node, NewNode) else None
            cells = node.columns if isinstance(node, NewNode) else None
            if width is None:
                if features is not None or cells is not None:
                    raise InputError(
                        "The model reads no features, but the edges of a node: leave them out."
                    )
                continue
            if (features is None) == (cells is None):
                both = "none" if features is None else "both"
                raise InputError(
                    f"new node {row}: got {both}; expected features (a list of {width} numbers) "
                    "or columns."
                )
            if features is not None:
                if len(features) != width:
                    raise InputError(
                        f"The model reads {width} features a node; got {len(features)} for new "
                        f"node {row}."
                    )
                rows.append(features)
            elif cells is not None:
                columns.append(self._cells(row, cells))
        if rows and columns:
            raise InputError("Give features for all new nodes of a request, or columns for all.")
        if columns:
            assert isinstance(plan, FeaturePlan)
            return _read_columns(columns, plan)
        if width is None or not rows:
            return None
        found = torch.from_numpy(np.array(rows, dtype=np.float32))
        if not torch.isfinite(found).all():
            node, column = (~torch.isfinite(found)).nonzero()[0].tolist()
            raise InputError(
                f"Feature {column} of new node {node} is {found[node, column]}: not finite."
            )
        return found

    def _cells(self, row: int, cells: dict[str, Any]) -> dict[str, Any]:
        plan = self.predictor.plan
        if not isinstance(plan, FeaturePlan):
            raise InputError("columns: the model has no plan to read them; give features.")
        for name in plan.inputs:
            if name not in cells:
                raise InputError(
                    f"columns of new node {row} lack {name!r}, a feature that the model was "
                    "trained with; give null where it has no value."
                )
        known = f"{', '.join(map(repr, plan.inputs[:5]))}{' ...' if len(plan.inputs) > 5 else ''}"
        for name in cells:
            if name not in plan.inputs:
                raise InputError(
                    f"columns of new node {row}: {name!r} is no feature of the model; expected "
                    f"{known}."
                )
        return cells

    # Similar nodes and what-ifs

    def _similar(self, ids: list[str], k: int) -> list[dict[str, Any]]:
        known, first = self.predictor.candidates, self.parts.first
        if self.live is not None:
            growing = self.growing
            numbers = growing.known(ids, known)
            z = growing.table(embed=True)[torch.from_numpy(numbers)]
            best = growing.nearest(z, _rows([np.array([each]) for each in numbers]), k)
            degree = growing.degree(numbers)
            named = growing.names(numbers)
            return self._listed(named, best.ids.numpy(), best.scores.numpy(), degree)
        found = self._numbers(ids, similar=True)
        if (found < 0).any():
            raise unknown_ids([ids[row] for row in np.flatnonzero(found < 0)], known)
        wanted = torch.from_numpy(found)
        unit = self._unit
        own = Rows(torch.arange(len(wanted) + 1), wanted)
        best = top_k(unit[wanted], unit, k, known=own)
        degree = self.parts.graph.neighbours.degree(wanted + first).numpy()
        numbers = np.where(best.ids.numpy() >= 0, best.ids.numpy() + first, -1)
        named = known.values.gather(found).to_list()
        return self._listed(named, numbers, best.scores.numpy(), degree)

    @cached_property
    def _unit(self) -> Tensor:
        """Embeddings of length 1 of all that can be an answer."""
        return nn.functional.normalize(self.predictor.embeddings()[self.parts.first :], dim=1)

    def _what_if(self, ask: Ask) -> Reply:
        if self.predictor.task != "node-classification":
            raise InputError(
                f"what-if is for models that classify; this does {self.predictor.task}."
            )
        if self.live is not None:
            self.live.catch_up()
        growing = self.growing
        number = int(growing.known([*ask.ids])[0])
        add, remove = growing.known(ask.add), growing.known(ask.remove)
        for name, other in zip(ask.remove, remove.tolist(), strict=True):
            if not growing.has_edge(other, number):
                raise InputError(f"remove: {ask.ids[0]!r} has no edge from {name!r}.")
        z, degree = growing.what_if(number, add, remove)
        return Reply(self._classes(growing.names(np.array([number])), z, np.array([degree]), [ask]))

    def _look(self, name: str, limit: int) -> dict[str, Any]:
        """What a page draws of a known node: its neighbours, with degrees and classes."""
        if self.live is not None:
            self.live.catch_up()
        growing, classifies = self.growing, self.predictor.task == "node-classification"
        number = int(growing.known([name])[0])
        row = growing.graph.row(number)
        shown = row[growing.degree(row).argsort(kind="stable")[::-1][:limit]]
        named = growing.names(shown) if shown.size else []
        degree = growing.degree(shown).tolist()
        found = [{"id": id, "degree": d} for id, d in zip(named, degree, strict=True)]
        if classifies and shown.size and self.live is None:
            answers = self._known([Piece(Ask("known", ids=tuple(map(str, named))), 0, len(named))])
            found = answers[0].answers
        return {"id": growing.names(np.array([number]))[0], "degree": row.size, "neighbours": found}

    # Answers as plain values

    def _plain(
        self,
        answers: ClassAnswers | RankingAnswers,
        asks: Sequence[Ask],
        names: list[Any] | None = None,
    ) -> list[dict[str, Any]]:
        ids = answers.ids.to_list() if names is None else names
        if isinstance(answers, ClassAnswers):
            return self._of_classes(ids, answers.probabilities, answers.degree, asks)
        first = self.parts.first
        numbers = np.where(answers.numbers >= 0, answers.numbers + first, -1)
        return self._listed(ids, numbers, answers.scores, answers.degree)

    def _classes(
        self, ids: list[Any], z: Tensor, degree: Ints, asks: Sequence[Ask]
    ) -> list[dict[str, Any]]:
        found = self.parts.temperature.probabilities(z, torch.from_numpy(degree)).numpy()
        return self._of_classes(ids, found, degree, asks)

    def _of_classes(
        self, ids: list[Any], p: Any, degree: Ints, asks: Sequence[Ask]
    ) -> list[dict[str, Any]]:
        best, labels = p.argmax(1), self.parts.labels
        sure = p[np.arange(len(p)), best].tolist()
        rows = [
            {"id": id, "label": labels[at], "probability": chance, "degree": d}
            for id, at, chance, d in zip(ids, best.tolist(), sure, degree.tolist(), strict=True)
        ]
        if any(ask.probabilities for ask in asks):
            named = [str(label) for label in labels]
            for row, every in zip(rows, p.tolist(), strict=True):
                row["probabilities"] = dict(zip(named, every, strict=True))
        return rows

    def _ranked(
        self, ids: list[Any], z: Tensor, degree: Ints, known: Rows, k: int
    ) -> list[dict[str, Any]]:
        best = self.growing.rank(z, known, k)
        return self._listed(ids, best.ids.numpy(), best.scores.numpy(), degree)

    def _listed(
        self, ids: list[Any], numbers: Ints, scores: Any, degree: Ints
    ) -> list[dict[str, Any]]:
        filled = numbers >= 0
        flat = numbers[filled]
        if self.live is None:
            known = self.predictor.candidates.values
            named = known.gather(flat - self.parts.first).to_list()
        else:
            named = self.growing.names(flat) if flat.size else []
        stops = filled.sum(1).cumsum().tolist()
        rows = []
        for row, (id, d, stop) in enumerate(zip(ids, degree.tolist(), stops, strict=True)):
            start = stops[row - 1] if row else 0
            rows.append(
                {
                    "id": id,
                    "degree": d,
                    "candidates": named[start:stop],
                    "scores": scores[row][filled[row]].tolist(),
                }
            )
        return rows

    def expect(self, *tasks: str) -> None:
        """Refuse a question that this model does not answer."""
        if self.predictor.task not in tasks:
            raise InputError(
                f"This model does {self.predictor.task}: use {_ROUTES[self.predictor.task]}."
            )


def folder_version(folder: Path) -> str:
    """What the version of a model in a folder is called: the start of its checksum."""
    try:
        config = json.loads((folder / "config.json").read_bytes())
        return str(config["checksum"])[:_VERSION]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return ""  # loading it says what is wrong


def taken_id(kind: str, name: str) -> InputError:
    """What to say about a new node whose id is known."""
    return TakenId(
        f"The model knows {kind} {name!r} already: ask about it by its id, or give the new one "
        "another."
    )


class TakenId(InputError):
    """An id of a new node that a known one has."""


def texts(ids: Sequence[int | str]) -> list[str]:
    """Ids as texts: 7 and "7" are the same."""
    return [str(each) for each in ids]


def _split(
    answers: list[dict[str, Any]],
    asks: Sequence[Ask],
    counts: Sequence[int],
    skipped: Sequence[list[Any]] | None = None,
) -> list[Reply]:
    """Answers by piece, each with no more than it asked for."""
    replies, start = [], 0
    for at, (ask, count) in enumerate(zip(asks, counts, strict=True)):
        own = answers[start : start + count]
        start += count
        for each in own:
            if "candidates" in each and len(each["candidates"]) > ask.k:
                each["candidates"] = each["candidates"][: ask.k]
                each["scores"] = each["scores"][: ask.k]
            if not ask.probabilities:
                each.pop("probabilities", None)
        replies.append(Reply(own, [] if skipped is None else skipped[at]))
    return replies


def _rows(lists: Sequence[Ints]) -> Rows:
    rowptr = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum([len(each) for each in lists], out=rowptr[1:])
    col = np.concatenate([*lists, NONE])
    return Rows(torch.from_numpy(rowptr), torch.from_numpy(col))


def _checked(between: Sequence[tuple[int, int]], count: int) -> Sequence[tuple[int, int]]:
    for pair in between:
        if not all(0 <= end < count for end in pair):
            raise InputError(f"between names the new nodes {pair}; there are rows 0..{count - 1}.")
    return between


def _read_columns(rows: Sequence[dict[str, Any]], plan: FeaturePlan) -> Tensor:
    """Features of rows of cells ``[m, d]``."""
    try:
        frame = pl.DataFrame(
            {
                name: pl.Series(name, [row[name] for row in rows], strict=False)
                for name in plan.inputs
            }
        )
    except (TypeError, OverflowError, pl.exceptions.PolarsError) as error:
        raise InputError(f"columns of new nodes do not form a table ({error}).") from error
    return plan.apply(frame)
