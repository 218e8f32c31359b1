"""Rows that the system behind a table has refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlengine.batch import Batch


@dataclass(frozen=True)
class RefusedRows:
    """Rows that were written and that the other side has refused for good: those of `rows` with
    these numbers, and the reasons."""

    rows: Batch
    reasons: Mapping[int, str]
