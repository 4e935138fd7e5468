"""Experiments and their records."""

from .provenance import versions
from .records import RunRecord, read_records

__all__ = ["RunRecord", "read_records", "versions"]
