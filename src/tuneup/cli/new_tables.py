"""The arguments of commands that ask a saved model about rows of tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from tuneup.errors import InputError

from .table_panels import ReadingOptions, column, silent_stderr, table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tuneup.tables import FeaturePlan, New


@dataclass(frozen=True, kw_only=True)
class NewTableOptions(ReadingOptions):
    """What was typed about tables; each field is an option of the command line."""

    ids_from: Annotated[
        list[str] | None, table("Known nodes or users: a table with a column of ids.")
    ] = None
    nodes: Annotated[
        list[str] | None,
        table(
            "New nodes: ids and features. A file, a quoted pattern or a folder; CSV, TSV, Parquet, "
            "JSON lines or Arrow. May be repeated."
        ),
    ] = None
    edges: Annotated[
        list[str] | None, table("Edges of new nodes, or pairs (user, item) of new users.")
    ] = None
    id: Annotated[str | None, column("The id of a node.")] = None
    source: Annotated[str | None, column("Where an edge begins.")] = None
    target: Annotated[str | None, column("Where an edge ends.")] = None
    user: Annotated[str | None, column("The user of a pair.")] = None
    item: Annotated[str | None, column("The item of a pair.")] = None

    @property
    def of_new(self) -> bool:
        """Whether they are about what the model does not know."""
        return bool(self.nodes or self.edges)

    def load(self, pairs: bool, plan: FeaturePlan | None, columns: Mapping[str, str]) -> New:
        """What the tables hold.

        Args:
            pairs: whether the model recommends.
            plan: the features that it reads.
            columns: what columns were called in training.
        """
        from tuneup.tables import NewTables, read_new

        for name in ("source", "target") if pairs else ("user", "item"):
            if getattr(self, name):
                kind = "recommends items to users" if pairs else "has nodes, not users and items"
                raise InputError(f"--{name} is not supported: the model {kind}; leave it out.")
        request = NewTables(
            nodes=tuple(self.nodes or ()),
            edges=tuple(self.edges or ()),
            wanted=tuple(self.ids_from or ()),
            pairs=pairs,
            plan=plan,
            id=self.id,
            source=self.user if pairs else self.source,
            target=self.item if pairs else self.target,
            reading=self.reading(),
            columns=columns,
        )
        with silent_stderr():
            return read_new(request)
