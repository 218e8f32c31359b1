"""Repairs the log of a shard that is damaged: gives up what cannot be read, and nothing else.

Offsets stay: in the place of what is lost the log has batches without records, so that neither
readers nor groups meet other records at an offset that they know. A damaged file is kept beside the
one that takes its place, under another name."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from sqlengine.broker.errors import CorruptSegment
from sqlengine.broker.storage.chain import Options, current_files
from sqlengine.broker.storage.codec import NO_EPOCH, Header, encode, is_intact, seal, writer_of
from sqlengine.broker.storage.end_mark import read_end_mark, write_end_mark
from sqlengine.broker.storage.head import (
    NEVER,
    State,
    file_base,
    file_generation,
    file_name,
    mark_of,
    read_head,
)
from sqlengine.broker.storage.segment import Segment
from sqlengine.broker.storage.window import Window

_MARK_AT: Final = 4
_ENDING: Final = ".damaged"


class Lost(NamedTuple):
    """Records that were given up: the offsets [first, behind), and where the damaged file is."""

    first: int
    behind: int
    kept: Path


@dataclass
class _State:
    """The state of the log before the segment that is looked at."""

    reached: int
    latest: int
    writers: dict[str, int]


class _Sound(NamedTuple):
    """An intact batch: its bytes without checksum and mark, and its header."""

    rest: bytes
    header: Header


def repair_shard(folders: Sequence[Path], options: Options) -> list[Lost]:
    """Repairs the segments in a shard's folders, which nobody has open. Raises OSError."""
    disk = options.disk
    paths = current_files(folders, disk)
    mark = read_end_mark(folders, disk)
    state = _State(file_base(paths[0]) if paths else mark.offset, NEVER, {})
    lost: list[Lost] = []
    for path, following in zip(paths, [*map(file_base, paths[1:]), None], strict=True):
        end = mark.offset if following is None else following
        lost += _repair_segment(path, max(end, state.reached), state, options)
    if not paths:
        _fill(folders[-1] / file_name(mark.offset), [], mark.offset, state, options)
    if state.reached < mark.offset or lost:
        write_end_mark(folders[-1], state.reached, -1, disk, synced=True)
    return lost


def _repair_segment(path: Path, end: int, state: _State, options: Options) -> list[Lost]:
    """Repairs a segment that should reach to the offset `end` at least; takes `state` there."""
    base = file_base(path)
    content = options.disk.read(path)
    sound, whole, head_state = _sound_batches(path, content, state, options)
    gaps = list(_gaps(base, sound, end))
    if head_state is not None:
        state.latest = max(state.latest, head_state.max_timestamp)
        state.writers |= head_state.writers
    begun = State(
        base, state.latest, dict(state.writers), head_state.covers if head_state else None
    )
    for batch in sound:
        state.latest = max(state.latest, batch.header.timestamp)
        if batch.header.writer_size:
            state.writers[_writer(batch)] = batch.header.epoch
    state.reached = max(end, sound[-1].header.next if sound else base)
    if whole and not gaps:
        return []
    # Also without a gap: what is behind the last batch may be a torn one, or a damaged epoch.
    generation = file_generation(path) + 1
    kept = path.with_name(path.name + _ENDING)
    _fill(path.parent / file_name(base, generation), sound, state.reached, state, options, begun)
    options.disk.rename(path, kept)
    return [Lost(first, behind, kept) for first, behind in gaps] or [Lost(base, base, kept)]


def _sound_batches(
    path: Path, content: bytes, state: _State, options: Options
) -> tuple[list[_Sound], bool, State | None]:
    """Returns the intact batches of a file, whether they are all of it, and the state in its head,
    if that can be read."""
    try:
        head = read_head(path, options.disk)
    except CorruptSegment:
        head = None
    mark = mark_of(content) if head is None else head.mark
    position = 0 if head is None else head.start
    found, end = list[_Sound](), position
    for at, header in _intact(Window.of(content), position, mark, file_base(path)):
        found.append(_Sound(content[at + 8 : at + header.length], header))
        end = at + header.length if at == end else -1
    return found, head is not None and end == len(content), None if head is None else head.state


def _intact(window: Window, position: int, mark: int, offset: int) -> Iterator[tuple[int, Header]]:
    """Yields the intact batches of a file in their order, wherever they begin."""
    data, size = bytes(window.view), len(window.view)
    pattern = mark.to_bytes(_MARK_AT, "little")
    while position < size:
        header = window.header(position, size, mark)
        if header and header.base >= offset and is_intact(window.view, position, header):
            yield position, header
            position, offset = position + header.length, header.next
        else:
            place = data.find(pattern, position + _MARK_AT + 1)
            position = place - _MARK_AT if place >= 0 else size


def _gaps(base: int, sound: Sequence[_Sound], end: int) -> Iterator[tuple[int, int]]:
    for _, header in sound:
        if base < header.base:
            yield base, header.base
        base = header.next
    if base < end:
        yield base, end


def _fill(
    path: Path,
    sound: Sequence[_Sound],
    end: int,
    state: _State,
    options: Options,
    begun: State | None = None,
) -> None:
    """Writes a segment with these batches, and nothing where records are missing up to `end`."""
    begun = begun or State(end, state.latest, dict(state.writers))
    segment = Segment.create_unnamed(path.with_suffix(".tmp"), begun, options.disk)
    try:
        for rest, header in sound:
            _leave_out(segment, header.base)
            _append(segment, segment.mark.to_bytes(4, "little") + rest, header)
        _leave_out(segment, end)
        segment.publish(path, durable=True)
    except OSError:
        segment.remove()
        raise
    segment.close()


def _append(segment: Segment, covered: bytes, header: Header) -> None:
    batch = (zlib.crc32(covered).to_bytes(4, "little"), covered)
    size = segment.write(batch, durable=False)
    segment.advance(header.base, size, header.next, header.timestamp)


def _leave_out(segment: Segment, end: int) -> None:
    base, _, latest = segment.tail
    if base < end:
        batch = seal(encode([], None), segment.mark, base, end, latest, b"", NO_EPOCH)
        segment.advance(base, segment.write(batch, durable=False), end, latest)


def _writer(batch: _Sound) -> str:
    return writer_of(memoryview(batch.rest), -8, batch.header)
