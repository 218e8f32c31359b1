"""Excerpts: where the records of a range are in the files of a shard, for other processes that read
them themselves.

They read links to the files, which keep what retention or a move takes away meanwhile. A segment
only grows, so what an excerpt names of it stays as it is."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from sqlengine.broker.base import Records
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.storage.codec import Header, is_intact
from sqlengine.broker.storage.reading import ReadBounds, Run, records_of
from sqlengine.broker.storage.segment import Segment, Tail
from sqlengine.broker.storage.window import Window

# A batch belongs to one excerpt, or nearly so: where that makes an excerpt so many times as long as
# it should be, batches are too large to be shared out.
_MOST_STEPS: Final = 4


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A part of a `file` with whole batches: `size` bytes from byte `position` on."""

    file: str
    position: int
    size: int


class Excerpt(msgspec.Struct, frozen=True, array_like=True):
    """The records [`start`, `end`) of a shard, in `pieces` that may have some around them."""

    topic: str
    shard: int
    start: int
    end: int
    pieces: tuple[Piece, ...]

    def read(self) -> Records:
        """Reads the records. OSError where a file cannot be read, BrokerError where it does not
        have what was written."""
        runs, reached = [], self.start
        for piece in self.pieces:
            run = Run(_window(piece), [], [])
            for at, header in _batches(run.window, piece):
                if header.next > self.start and header.base < self.end:
                    reached = header.next
                    if header.rows:
                        _require_intact(run.window, at, header, piece)
                        run.places.append(at)
                        run.headers.append(header)
            runs.append(run)
        if reached < self.end:
            raise BrokerError(f"records from {reached} on are missing in {self._files}")
        bounds = ReadBounds(0, 0, self.end)
        return records_of(self.topic, self.shard, runs, self.end, self.start, bounds)

    @property
    def _files(self) -> str:
        return ", ".join(piece.file for piece in self.pieces)


def _window(piece: Piece) -> Window:
    with open(piece.file, "rb", buffering=0) as file:
        data = os.pread(file.fileno(), piece.size, piece.position)
    if len(data) < piece.size:
        raise BrokerError(f"file {piece.file!r} has less than was written to it")
    return Window.of(data)


def _batches(window: Window, piece: Piece) -> list[tuple[int, Header]]:
    """Returns the batches of a piece, with their places in it."""
    found, at = list[tuple[int, Header]](), 0
    while at < len(window.view):
        mark = int.from_bytes(window.view[at + 4 : at + 8], "little")
        header = window.header(at, len(window.view), mark)
        if header is None:
            raise _damaged(piece, at)
        found.append((at, header))
        at += header.length
    return found


def _require_intact(window: Window, at: int, header: Header, piece: Piece) -> None:
    if not is_intact(window.view, at, header):
        raise _damaged(piece, at)


def _damaged(piece: Piece, at: int) -> BrokerError:
    return BrokerError(f"file {piece.file!r} is damaged at byte {piece.position + at}")


# ---- in the broker -------------------------------------------------------------------------------


def excerpts_of(
    topic: str, shard: int, segments: Sequence[Segment], stops: Sequence[int], folder: Path
) -> list[Excerpt] | None:
    """Returns excerpts that meet at some of these offsets, from the first of them to the last, with
    links to the segments in `folder`.

    None where batches are too large for that, segments do not have all of the records, or no link
    can be made. BrokerError where a segment is damaged."""
    used = [
        (segment, segment.tail)
        for segment in segments[max(0, bisect_right(segments, stops[0], key=_base) - 1) :]
        if segment.base < stops[-1]
    ]
    if not used or used[0][0].base > stops[0] or used[-1][1].next_offset < stops[-1]:
        return None
    kept = _shared_out(used, stops)
    if max(b - a for a, b in pairwise(kept)) > _MOST_STEPS * (stops[1] - stops[0]):
        return None
    try:
        links = _linked([segment for segment, _ in used], folder)
        return [
            Excerpt(topic, shard, start, end, tuple(_pieces(used, links, start, end)))
            for start, end in pairwise(kept)
        ]
    except OSError:  # another file system, or the file has gone in this moment
        return None


def _shared_out(used: Sequence[tuple[Segment, Tail]], stops: Sequence[int]) -> list[int]:
    """Returns the stops without those behind which the same batch, or the same small ones, would be
    read once more than by two excerpts."""
    ends = [_place_behind(used, stop) for stop in stops]
    inner = [
        s for s, end, following in zip(stops, ends, ends[1:], strict=False) if end != following
    ]
    return [stops[0], *(s for s in inner if s != stops[0]), stops[-1]]


def _place_behind(used: Sequence[tuple[Segment, Tail]], offset: int) -> tuple[int, int]:
    before = bisect_right([segment.base for segment, _ in used], offset - 1)
    segment, tail = used[max(0, before - 1)]
    return segment.base, segment.position_behind(offset, tail)


def _linked(segments: Sequence[Segment], folder: Path) -> list[str]:
    folder.mkdir(parents=True, exist_ok=True)
    token, links = token_hex(8), []
    for segment in segments:
        link = folder / f"{token}-{segment.path.name}"
        os.link(segment.path, link)
        links.append(str(link))
    return links


def _pieces(
    used: Sequence[tuple[Segment, Tail]], links: Sequence[str], start: int, end: int
) -> list[Piece]:
    pieces = []
    for (segment, tail), link in zip(used, links, strict=True):
        if segment.base < end and tail.next_offset > start:
            first = segment.indexed_position(max(start, segment.base), tail)
            pieces.append(Piece(link, first, segment.position_behind(end, tail) - first))
    return pieces


def _base(segment: Segment) -> int:
    return segment.base
