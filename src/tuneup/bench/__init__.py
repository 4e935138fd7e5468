"""Experiments and their records."""

from .records import RunRecord, read_records, versions

__all__ = ["RunRecord", "read_records", "versions"]
