"""Recovers the last segment of a log after the death of its process."""

from __future__ import annotations

import mmap

from sqlengine.broker.errors import records_missing
from sqlengine.broker.storage.codec import header_at, is_intact, writer_of
from sqlengine.broker.storage.segment import Index, Segment, Tail

_MARK_AT = 4


def recover(segment: Segment, expected: int = 0) -> dict[str, int]:
    """Reads the whole segment, cuts off a torn or damaged end, and returns the last epoch per
    writer.

    Raises CorruptSegment if an intact batch follows the damage, or the log ends before `expected`:
    then it is not a torn end, but affects acknowledged records.
    """
    mapped = segment.map_file()
    view, size = memoryview(mapped), len(mapped)
    index, writers = Index(), dict(segment.state.writers)
    end, offset, latest = segment.start, segment.base, segment.state.max_timestamp
    for position, header in segment.intact(view, size):
        index.add(header.base, position, latest)
        if header.writer_size:
            writers[writer_of(view, position, header)] = header.epoch
        end, offset, latest = position + header.length, header.next, max(latest, header.timestamp)
    if offset < expected:
        raise records_missing(segment.path, end, offset, expected)
    # Only the last segment may end in the middle of a batch: older ones were complete when their
    # successor was created.
    if end < size:
        _refuse_if_intact_follows(segment, mapped, end, offset)
        segment.cut(end)
    segment.index = index
    segment.all_checked(end)
    segment.tail = Tail(offset, end, latest)
    return writers


def _refuse_if_intact_follows(
    segment: Segment, mapped: mmap.mmap | bytes, end: int, offset: int
) -> None:
    """Searches the rest of the file for the segment's random mark, which every batch header
    contains."""
    view, mark = memoryview(mapped), segment.mark.to_bytes(_MARK_AT, "little")
    place = mapped.find(mark, end + _MARK_AT + 1)
    while place >= 0:
        position = place - _MARK_AT
        header = header_at(view, position, len(mapped), segment.mark)
        if header is not None and header.base >= offset and is_intact(view, position, header):
            raise segment.damaged(
                end, offset, f"the batch there is damaged, an intact one follows at byte {position}"
            )
        place = mapped.find(mark, place + 1)
