"""How tables are read where their names and first lines do not say it."""

from __future__ import annotations

import codecs
from dataclasses import dataclass

from tuneup.errors import InputError

from .places import Format

_NAMED_DELIMITERS = {"tab": "\t", r"\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}

UTF_8 = "utf-8"


@dataclass(frozen=True)
class ReadOptions:
    """How files are read where their names and first lines do not say it.

    Args:
        format: overrules the suffix.
        delimiter: of CSV; by default a comma, or a tab in ``.tsv``.
        encoding: of CSV; by default UTF-8, or Windows-1252 where the bytes are that instead.
        missing: texts that mean "no value", next to the empty field.
        nan_is_missing: read NaN as "no value" instead of refusing it.
    """

    format: Format | None = None
    delimiter: str | None = None
    encoding: str | None = None
    missing: tuple[str, ...] = ()
    nan_is_missing: bool = False

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            one = _NAMED_DELIMITERS.get(self.delimiter, self.delimiter)
            if len(one.encode()) != 1 or one in '"\n\r':
                raise InputError(
                    f"--delimiter is one ASCII character, or tab or space; got {self.delimiter!r}."
                )
            object.__setattr__(self, "delimiter", one)
        try:
            codecs.lookup(self.encoding or UTF_8)
        except LookupError as error:
            raise InputError(f"--encoding {self.encoding}: no such encoding.") from error

    @property
    def no_values(self) -> list[str]:
        """All texts of CSV that mean "no value"."""
        return [*self.missing, *(("nan", "NaN", "NAN") if self.nan_is_missing else ())]
