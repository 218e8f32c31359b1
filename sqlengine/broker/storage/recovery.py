"""Recovers the last segment of a log after the death of its process."""

from __future__ import annotations

from sqlengine.broker.errors import records_missing
from sqlengine.broker.storage.codec import is_intact, writer_of
from sqlengine.broker.storage.index import Index
from sqlengine.broker.storage.segment import Segment, Tail

_MARK_AT = 4


def recover(segment: Segment, expected: int = 0) -> dict[str, int]:
    """Reads the whole segment, cuts off a torn or damaged end, and returns the last epoch per
    writer.

    Raises CorruptSegment if an intact batch follows the damage, or the log ends before `expected`:
    then it is not a torn end, but affects acknowledged records.
    """
    index, writers, size = Index(), dict(segment.state.writers), segment.file_size()
    end, offset, latest = segment.start, segment.base, segment.state.max_timestamp
    for window, at, header in segment.intact(size):
        index.add(header.base, window.start + at, latest)
        if header.writer_size:
            writers[writer_of(window.view, at, header)] = header.epoch
        end = window.start + at + header.length
        offset, latest = header.next, max(latest, header.timestamp)
    if offset < expected:
        raise records_missing(segment.path, end, offset, expected)
    # Only the last segment may end in the middle of a batch: older ones were complete when their
    # successor was created.
    if end < size:
        _refuse_if_intact_follows(segment, end, size, offset)
        segment.cut(end)
    segment.index = index
    segment.all_checked(end)
    segment.tail = Tail(offset, end, latest)
    return writers


def _refuse_if_intact_follows(segment: Segment, end: int, size: int, offset: int) -> None:
    """Searches the rest of the file for the segment's random mark, which every batch header
    contains."""
    rest = segment.window(end, size - end, Tail(offset, size, 0))
    mark, data = segment.mark.to_bytes(_MARK_AT, "little"), bytes(rest.view)
    place = data.find(mark, _MARK_AT + 1)
    while place >= 0:
        at = place - _MARK_AT
        header = rest.header(at, size, segment.mark)
        if header is not None and header.base >= offset and is_intact(rest.view, at, header):
            what = f"the batch there is damaged, an intact one follows at byte {end + at}"
            raise segment.damaged(end, offset, what)
        place = data.find(mark, place + 1)
