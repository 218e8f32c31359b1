"""Builds dead letters: rows that could not be processed, as rows of a dead-letter table."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sqlengine.batch import NO_OFFSET, Batch, IntArray
from sqlengine.operators.base import DEAD_LETTER

MAX_PAYLOAD = 64 * 1024


def dead_letters(
    rows: Batch,
    *,
    place: str | Sequence[str],
    subject: str | Sequence[str],
    reason: str | Sequence[str],
    owner: str = "",
) -> Batch:
    """Returns one dead letter for each row of `rows`, with the row's values as JSON (cut at 64
    KiB).

    A single text applies to all rows. `owner`: the job, where it is not all jobs that have the
    operator. Those change while an operator runs, so that the executor alone knows them.
    """
    return letters(
        rows,
        place,
        subject,
        reason,
        [describe(rows, i) for i in range(rows.num_rows)],
        rows.offsets,
        owner,
    )


def letters(
    like: Batch,
    place: str | Sequence[str],
    subject: str | Sequence[str],
    reason: str | Sequence[str],
    payload: Sequence[str],
    offsets: IntArray | None = None,
    owner: str = "",
) -> Batch:
    """Returns a DEAD_LETTER batch at the time of `like`.

    `offsets` are those of the records in the shard that `like` comes from.
    """
    count = len(payload)
    known = (
        np.zeros(count, np.bool_) if offsets is None or not like.origin else offsets != NO_OFFSET
    )
    shard = pa.array([like.origin] * count, pa.string(), mask=~known)
    offset = pa.array(np.zeros(count, np.int64) if offsets is None else offsets, mask=~known)
    texts = (
        [t] * count if isinstance(t, str) else t for t in (owner, place, subject, reason, payload)
    )
    descriptions = [pa.array(t, pa.string()) for t in texts]
    source = [pa.array([""] * count, pa.string())] * 3
    return Batch(
        DEAD_LETTER, (*descriptions, shard, offset, *source), count, like.proctime, like.watermark
    )


def describe(batch: Batch, row: int) -> str:
    """Returns the row as a JSON object; values without a JSON form become text."""
    values = {c.name: _plain(batch.columns[i].slice(row, 1)) for i, c in enumerate(batch.schema)}
    return json.dumps(values, default=str, ensure_ascii=False)[:MAX_PAYLOAD]


def _plain(one: pa.Array) -> object:
    """Returns the single value as a Python object; as Arrow's text where Python has no such value
    (nanoseconds)."""
    try:
        return one[0].as_py()
    except ValueError:
        return (
            one.cast(pa.string())[0].as_py()
            if pa.types.is_temporal(one.type)
            else one.to_string(indent=0)
        )
