"""Reading logs as they are written, and rotated."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from threading import RLock
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from planner.catalog import MetadataColumn, Table
from sqlengine.batch import log_of
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.filesystem.files import Files, changed
from sqlengine.connectors.filesystem.generations import Generation
from sqlengine.connectors.filesystem.long_records import (
    digest_of,
    is_too_long,
    line_end,
    long_record,
    read_range,
    wider,
)
from sqlengine.connectors.filesystem.opened import ARCHIVES, OpenFile
from sqlengine.connectors.filesystem.rotated_log import RotatedLog
from sqlengine.connectors.filesystem.search import LOOKS
from sqlengine.connectors.filesystem.siblings import logs_of
from sqlengine.connectors.filesystem.source import LineFiles
from sqlengine.formats.lines import Framed

# So many bytes at the end of what was read tell a file from others.
_KEPT: Final = 4096
_NOWHERE: Final = "neither it nor a copy or an archive of it is beside it any more"


class FollowedSource(LineFiles):
    """A shard is a file that a log was, by what it was then (`generations`); an offset is a byte of
    it. Whole lines only.

    A log without a line is one shard, too, by its path, so that the table is known to wait for it.
    The files of a log are read one after the other, but lines that are written late into an older
    one, which a writer still has open, come when they are there. Any thread."""

    bounded = False

    def __init__(self, table: Table, files: Files) -> None:
        super().__init__(table, files)
        self._display = table.display
        self._logs: dict[str, RotatedLog] = {}
        self._lock = RLock()
        self._listed = False
        # How far lines were looked through that are too long and have no end yet, by shard.
        self._looked: dict[str, int] = {}

    # ---- which files there are -------------------------------------------------------------------

    def resume(self, positions: Mapping[str, int], marks: Mapping[str, str]) -> None:
        """See `Source`."""
        with self._lock:
            for shard, offset in positions.items():
                one = self._log(log_of(shard))
                if shard != one.path or offset:
                    one.adopt(shard, offset, marks.get(shard))
                elif shard in marks:
                    one.since = int(marks[shard], 16)

    def marks(self) -> dict[str, str]:
        """See `Source`."""
        with self._lock:
            begun = {g.shard: g.mark for one in self._logs.values() for g in one.generations}
            waiting = [one for one in self._logs.values() if not one.generations]
            return begun | {o.path: f"{o.since:x}" for o in waiting if o.since is not None}

    def shards(self) -> list[str]:
        """See `Source`."""
        with self._lock:
            if not self._listed or self._files.is_due():
                self._list()
            names: list[str] = []
            for one in self._logs.values():
                one.look()
                names += [g.shard for g in one.generations] or [one.path]
            return names

    def closed(self) -> list[str]:
        """See `Source`."""
        with self._lock:
            found: list[str] = []
            for one in self._logs.values():
                own = [g.shard for g in one.generations]
                found += one.finished() + ([one.path] if own and one.path not in own else [])
            return found

    def forget(self, shards: Iterable[str]) -> None:
        """See `Source`."""
        with self._lock:
            for shard in shards:
                self._log(log_of(shard)).forget(shard)

    def _list(self) -> None:
        """Takes up the logs that are there."""
        first, self._listed = not self._listed, True
        paths = [str(path) for path in self._files.paths()]
        names = {(os.path.dirname(p), os.path.basename(p)) for p in (*paths, *self._logs)}
        for path in paths:
            folder, name = os.path.split(path)
            if self._files.is_file or not (
                path.endswith(ARCHIVES) or any((folder, log) in names for log in logs_of(name))
            ):
                self._log(path, takes_older=first and not self._files.is_file)

    def _log(self, path: str, *, takes_older: bool = False) -> RotatedLog:
        if path not in self._logs:
            self._logs[path] = RotatedLog(
                path,
                self._display,
                lambda inode: self._is_elsewhere(path, inode),
                takes_older=takes_older,
                access=self._files.access,
            )
        return self._logs[path]

    def _is_elsewhere(self, path: str, inode: int) -> bool:
        """True if the file is one of another log, and was renamed."""
        others = (one for one in self._logs.values() if one.path != path)
        return any(
            not g.gone and inode == (g.inode if g.file is None else g.file.inode)
            for one in others
            for g in one.generations
        )

    # ---- reading ---------------------------------------------------------------------------------

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`."""
        with self._lock:
            one = self._log(log_of(shard))
            found = [g for g in one.generations if g.shard == shard]
            if until is not None:
                # A log without a line was read by its path in older versions.
                generation = found[0] if found else one.adopt(shard, offset)
                return self._range(one, generation, offset, until)
            if not found:
                return None  # nothing but the name of a log
            if offset == found[0].offset and not one.is_in_turn(found[0]):
                return None
            return self._next(one, found[0], offset, max_rows)

    def expect(self, shard: str, start: int, end: int, digest: str) -> None:
        """See `Source`."""
        with self._lock:
            one = self._log(log_of(shard))
            one.adopt(shard, start).expect(start, end - start, digest)

    def _range(self, one: RotatedLog, generation: Generation, offset: int, until: int) -> Chunk:
        framed, digest, tail = self._found(one, generation, offset, until)
        generation.expected = None
        if framed.size < until - offset:
            detail = f"it ends at byte {offset + framed.size}, byte {until} was there before"
            raise changed(generation.shard, detail)
        if offset == generation.offset:
            generation.take(until - len(tail), tail)
        return self._chunk(generation.shard, offset, framed, generation.marked(digest))

    def _found(
        self, one: RotatedLog, generation: Generation, offset: int, until: int
    ) -> tuple[Framed, str, bytes]:
        """Reads what was read before, its digest, and its last bytes; looks for the file again if
        it is emptied meanwhile."""
        for _ in range(LOOKS):
            file = one.find(generation)
            if file is None:
                raise changed(generation.shard, _NOWHERE)
            framed = read_range(file.read, self._framing, offset, until)
            found = framed, digest_of(file.read, offset, until), self._tail(file, offset, until)
            if generation.is_intact():
                break
            generation.close()
        return found

    @staticmethod
    def _tail(file: OpenFile, start: int, end: int) -> bytes:
        """The last bytes of what was read, by which the file is known again."""
        size = min(_KEPT, end - start)
        return file.read(end - size, size)

    def _next(
        self, one: RotatedLog, generation: Generation, offset: int, max_rows: int
    ) -> Chunk | None:
        """Reads whole lines from `offset` on; None if there is none now."""
        file, window = generation.file, self._window(max_rows)
        while file is not None and self._is_intact(one, generation):
            # A file that two newer ones follow is complete as it is.
            complete = file.final or one.is_old(generation)
            data = self._more(file, offset, window)
            at_end = len(data) < window
            framed = self._framing.split(data, complete=complete and at_end)
            if not self._is_intact(one, generation):
                break  # what was read may be of another file
            if framed.size:
                part = framed.first(max_rows)
                if offset == generation.offset:
                    generation.take(offset, data[: part.size])
                digest = generation.digest(offset, data[: part.size])
                return self._chunk(generation.shard, offset, part, digest)
            if at_end:
                generation.drained = True
                break
            if is_too_long(data):
                return self._long_line(one, generation, offset, data, complete=complete)
            window = wider(window)  # a line that is longer
        return None

    def _long_line(
        self, one: RotatedLog, generation: Generation, offset: int, data: bytes, *, complete: bool
    ) -> Chunk | None:
        """Returns the first bytes of a line that is too long, which begins with `data`; None as
        long as it has no end."""
        file, shard = generation.file, generation.shard
        assert file is not None
        at = max(self._looked.pop(shard, 0), offset + len(data))
        end, whole = line_end(file.read, at)
        if not self._is_intact(one, generation):
            return None
        if not whole and not complete:
            generation.drained, self._looked[shard] = True, end
            return None
        tail = self._tail(file, offset, end)
        if offset == generation.offset:
            generation.take(end - len(tail), tail)
        framed = long_record(file.read, data, offset, end)
        digest = generation.marked(digest_of(file.read, offset, end))
        return self._chunk(shard, offset, framed, digest)

    @staticmethod
    def _more(file: OpenFile, offset: int, window: int) -> bytes:
        size = file.size()
        return b"" if size is not None and size <= offset else file.read(offset, window)

    @staticmethod
    def _is_intact(one: RotatedLog, generation: Generation) -> bool:
        if generation.is_intact():
            return True
        generation.close()
        one.look_again()
        return False

    def lost(self) -> int:
        """See `Source`."""
        return sum(one.lost for one in list(self._logs.values()))

    def end(self, shard: str) -> int | None:
        with self._lock:
            for generation in self._log(log_of(shard)).generations:
                if generation.shard == shard:
                    file = generation.file
                    return generation.offset if file is None else file.size()
            return 0

    def expired(self, shard: str, offset: int) -> str | None:
        """See `Source`. Only the last file of a log that was begun is needed."""
        with self._lock:
            one = self._log(log_of(shard))
            for i, generation in enumerate(one.generations):
                if generation.shard == shard:
                    later = one.generations[i + 1 :]
                    if any(g.offset for g in later) or one.find(generation) is not None:
                        return None
                    return f"file '{one.path}' was read to byte {offset}, and {_NOWHERE}"
            return None

    def first(self, shard: str) -> int | None:
        """See `Source`. Reading goes on with the next file."""
        with self._lock:
            found = [g for g in self._log(log_of(shard)).generations if g.shard == shard]
            return found[0].offset if found else 0

    def metadata_of(
        self, shard: str, offsets: npt.NDArray[np.int64]
    ) -> Iterator[tuple[MetadataColumn, pa.Array]]:
        """See `FileShards`. A file keeps the path under which it was written."""
        one = self._log(log_of(shard))
        file = next((g.file for g in one.generations if g.shard == shard), None)
        status = (0, 0) if file is None else (file.size() or 0, file.modified())
        for m in self._metadata:
            values = self._files.metadata(m.key, one.path, offsets, status)
            yield m, values.cast(m.column.type.arrow, safe=False)

    def close(self) -> None:
        with self._lock:
            for one in self._logs.values():
                one.close()
