"""DuckDB within a memory limit: it reads tables, joins ids and sorts what does not fit into memory.

``python -m benchmarks disk`` has it beside polars' streaming engine, which sorted in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from tuneup.errors import InputError, OutputError
from tuneup.runtime import require

_WORKSPACE = 192 << 20
"""Bytes of a budget that are left to Python's own arrays."""
_LEAST = 160 << 20
"""Bytes below which DuckDB cannot spill."""
LEAST_MEMORY = 1 << 29
"""The smallest budget."""


@dataclass(frozen=True)
class Scan:
    """Files of one table, and how to read them.

    Args:
        files: paths of files with the same columns.
        format: of all of them.
        columns: names of all columns, in the order of a delimited file.
        delimiter: of a delimited file.
        missing: texts of a delimited file that mean "no value", besides the empty field.
    """

    files: tuple[str, ...]
    format: Literal["csv", "tsv", "parquet", "jsonl"]
    columns: tuple[str, ...] = ()
    delimiter: str = ","
    missing: tuple[str, ...] = ()

    @property
    def untyped(self) -> bool:
        """Whether all columns are read as text."""
        return self.format in ("csv", "tsv")

    @property
    def sql(self) -> str:
        """What to select from; rows come in the order of the files."""
        files = f"[{', '.join(map(text, self.files))}]"
        if self.format == "parquet":
            return f"read_parquet({files})"
        if self.format == "jsonl":
            return f"read_json({files}, format = 'newline_delimited')"
        columns = ", ".join(f"{text(name or '_')}: 'VARCHAR'" for name in self.columns)
        nulls = ", ".join(map(text, ("", *self.missing)))
        return (
            f"read_csv({files}, auto_detect = false, header = true, columns = {{{columns}}}, "
            f"delim = {text(self.delimiter)}, quote = '\"', escape = '\"', nullstr = [{nulls}])"
        )

    @property
    def stamp(self) -> list[Any]:
        """What tells whether the files have changed."""
        found = [Path(file).stat() for file in self.files]
        stamps = [
            (str(Path(file).resolve()), stat.st_size, stat.st_mtime_ns)
            for file, stat in zip(self.files, found, strict=True)
        ]
        return [stamps, self.format, self.columns, self.delimiter, self.missing]


def text(value: str) -> str:
    """A text of SQL."""
    return "'" + value.replace("'", "''") + "'"


def name_of(column: str) -> str:
    """A name of SQL."""
    return '"' + column.replace('"', '""') + '"'


def parquet(path: Path, *, numbered: bool = False) -> str:
    """What to select from to read a file that was written here."""
    return f"read_parquet({text(str(path))}{', file_row_number = true' if numbered else ''})"


class Engine:
    """A connection whose memory is limited and that spills into a folder.

    Args:
        memory: bytes of anonymous memory that the whole process may use.
        scratch: folder for what does not fit.
    """

    def __init__(self, memory: int, scratch: Path) -> None:
        duckdb = require("duckdb", "disk")
        own = anonymous_memory()
        share = memory - own - _WORKSPACE
        if share < _LEAST:
            raise InputError(
                f"memory: got {memory >> 20} MiB, of which the program itself takes {own >> 20}; "
                f"expected at least {(own + _WORKSPACE + _LEAST) >> 20} MiB; pass a larger "
                "--memory."
            )
        self.errors: type[Exception] = duckdb.Error
        settings: Mapping[str, Any] = {
            "memory_limit": f"{share >> 20}MiB",
            "threads": torch.get_num_threads(),
            "temp_directory": str(scratch),
            "enable_external_file_cache": False,
        }
        self.connection = duckdb.connect(":memory:", config=dict(settings))

    def close(self) -> None:
        """Give the memory back."""
        self.connection.close()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """The rows of a short answer."""
        with self._clear_errors():
            found: list[tuple[Any, ...]] = self.connection.execute(query).fetchall()
        return found

    def one(self, query: str) -> Any:
        """The only value of an answer."""
        return self.rows(query)[0][0]

    def save(self, query: str, path: Path, *, ordered: bool) -> None:
        """Write the rows of a query to a Parquet file.

        Args:
            query: what to write.
            path: the file.
            ordered: whether rows keep the order of the files that they are read from; the order of
                an ``ORDER BY`` always stays.
        """
        self.rows(f"SET preserve_insertion_order = {'true' if ordered else 'false'}")
        partial = path.with_suffix(".writing")
        # Not zstd: it halves the file and doubles the time of a sort.
        self.rows(f"COPY ({query}) TO {text(str(partial))} (FORMAT parquet, COMPRESSION snappy)")
        partial.replace(path)

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except self.errors as error:
            raise plain_error(error) from error


def plain_error(error: Exception) -> Exception:
    """DuckDB's error as one line of ours."""
    said = str(error)
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    kind, _, problem = lines[0].partition(": ")
    if "No space left" in said or "max_temp_directory_size" in said:
        return OutputError(f"the disk is full ({problem or kind}); free space or choose another.")
    if "Out of Memory" in kind:
        return InputError(f"memory: the budget is too small ({problem}); pass a larger --memory.")
    file = next((line[7:] for line in lines if line.startswith("file = ")), "")
    at = problem.removeprefix("CSV Error on Line: ")
    if file and at.isdigit():
        why = ", ".join(line for line in lines[1:8] if line.startswith(("Expected", "Value", "Er")))
        return InputError(f"{file}, line {at}: {why or 'not a row of the table'}; mend the row.")
    return InputError(f"cannot read the tables: {problem or kind}.")


def anonymous_memory() -> int:
    """Bytes of memory of this process that no file is behind (Linux; elsewhere a guess)."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 256 << 20


def all_whole(scan: Scan, columns: Sequence[str], engine: Engine) -> bool:
    """Whether columns hold whole numbers only, as usually written: ``7``, not ``007``."""
    kinds = {
        row[0]: row[1] for row in engine.rows(f"DESCRIBE SELECT {_list(columns)} FROM {scan.sql}")
    }
    if all(kind in _INTEGERS for kind in kinds.values()):
        return True
    if not scan.untyped:
        return False
    tests = " AND ".join(
        f"coalesce(bool_and(TRY_CAST({name_of(each)} AS BIGINT)::VARCHAR = {name_of(each)}), true)"
        f" AND count(*) FILTER ({name_of(each)} IS NOT NULL AND TRY_CAST({name_of(each)} AS BIGINT)"
        f" IS NULL) = 0"
        for each in columns
    )
    # Most tables of texts show it at once.
    if not engine.one(f"SELECT {tests} FROM (SELECT * FROM {scan.sql} LIMIT 1000)"):
        return False
    return bool(engine.one(f"SELECT {tests} FROM {scan.sql}"))


_INTEGERS = {
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER"),
}


def _list(columns: Sequence[str]) -> str:
    return ", ".join(map(name_of, columns))
