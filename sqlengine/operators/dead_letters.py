"""Rows that could not be processed, as the rows of a dead-letter table."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from sqlengine.batch import Batch
from sqlengine.operators.base import DEAD_LETTER

MAX_PAYLOAD = 64 * 1024


def dead_letters(
    rows: Batch, *, owner: Sequence[str], place: Sequence[str], subject: Sequence[str], reason: Sequence[str]
) -> Batch:
    """One dead letter per row of `rows`, with the row's values as JSON (cut at 64 KiB)."""
    return letters(rows, owner, place, subject, reason, [describe(rows, i) for i in range(rows.num_rows)])


def letters(
    like: Batch,
    owner: Sequence[str],
    place: Sequence[str],
    subject: Sequence[str],
    reason: Sequence[str],
    payload: Sequence[str],
) -> Batch:
    """A DEAD_LETTER batch at the time of `like`."""
    columns = tuple(pa.array(c, pa.string()) for c in (owner, place, subject, reason, payload))
    return Batch(DEAD_LETTER, columns, len(owner), like.proctime, like.watermark)


def describe(batch: Batch, row: int) -> str:
    """The row as a JSON object; values without a JSON form as text."""
    values = {c.name: batch.columns[i][row].as_py() for i, c in enumerate(batch.schema)}
    return json.dumps(values, default=str, ensure_ascii=False)[:MAX_PAYLOAD]
