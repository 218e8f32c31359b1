"""Records of elsewhere as batches of a file, for whoever takes these apart."""

from __future__ import annotations

from sqlengine.broker.base import Records
from sqlengine.broker.storage.codec import NO_EPOCH, encode, seal
from sqlengine.broker.storage.reading import Batches


def batches_of(records: Records) -> Batches:
    """Returns records as one batch, with the offset and the time of each."""
    if not records.num_rows:
        return Batches(b"", records.next_offset)
    payload = encode(records.values, records.keys, records.offsets, records.timestamps)
    base, behind = int(records.offsets[0]), int(records.offsets[-1]) + 1
    latest = int(records.timestamps.max())
    return Batches(
        b"".join(seal(payload, 0, base, behind, latest, b"", NO_EPOCH)), records.next_offset
    )
