"""A log that is followed while it is rotated: which of its files is which, and which are new."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from sqlengine.connectors.filesystem.generations import (
    Generation,
    identified,
    is_copy,
    known,
)
from sqlengine.connectors.filesystem.opened import OpenFile
from sqlengine.connectors.filesystem.search import LOOKS, Renamed, Search, Used, open_sibling
from sqlengine.connectors.filesystem.siblings import Sibling, listing, rotated
from sqlengine.system.file_access import ANY_FILES, FileAccess

log = logging.getLogger("sqlengine")

# So many of the newest files of a log stay open: who writes may not know yet that it was rotated.
_OPEN: Final = 2

LOST: Final = (
    "table %s: what followed byte %d of '%s', if anything did, was rotated away or truncated before"
    " it was read, and is in no file or archive beside it; the next file is read from its beginning"
)


class RotatedLog:
    """The files of the log that is written at `path`, the oldest first.

    `takes_older`: where nothing was read yet, files that were rotated before are read, too.
    `is_elsewhere` tells whether the file of an inode is one of another log."""

    def __init__(
        self,
        path: str,
        table: str,
        is_elsewhere: Callable[[int], bool] = lambda _: False,
        *,
        takes_older: bool = False,
        access: FileAccess = ANY_FILES,
    ) -> None:
        self.path = path
        self._access = access
        self._is_elsewhere = is_elsewhere
        self.generations: list[Generation] = []
        self._table = table
        self._takes_older = takes_older
        self.since: int | None = None
        self._looked: tuple[int, ...] | None = ()
        self._stale = False
        self._waiting = False
        self._forgotten = 0
        self.lost = 0

    def adopt(self, shard: str, offset: int, mark: str | None = None) -> Generation:
        """Takes up a file that was read before, to `offset`."""
        for generation in self.generations:
            if generation.shard == shard:
                return generation
        generation = known(shard, offset)
        generation.after = max((g.modified for g in self.generations), default=self._forgotten)
        if mark is not None:
            generation.recall(mark)
        self.generations.append(generation)
        return generation

    def forget(self, shard: str) -> None:
        """Drops a file that will not be read again."""
        for generation in [g for g in self.generations if g.shard == shard]:
            generation.close()
            self._forgotten = max(self._forgotten, generation.modified)
            self.generations.remove(generation)

    def is_in_turn(self, generation: Generation) -> bool:
        """True if all older files are read to their ends."""
        older = self.generations[: self.generations.index(generation)]
        return all(g.drained or g.shut or g.gone for g in older)

    def is_old(self, generation: Generation) -> bool:
        """True if two newer files follow it, so that nobody writes to it any more."""
        return generation in self.generations[:-_OPEN]

    def finished(self) -> list[str]:
        """Returns the shards of files that are nowhere any more, and have been read."""
        return [g.shard for g in self.generations[:-1] if g.gone]

    def close(self) -> None:
        for generation in self.generations:
            generation.close()

    # ---- looking ---------------------------------------------------------------------------------

    def look(self) -> None:
        """Looks for new files of the log once something has happened to it."""
        state = self._state()
        if state == self._looked and not self._stale:
            return
        siblings = listing(self.path)
        try:
            used = self._find(siblings)
            self._discover(siblings, used)
        except Renamed:
            self._stale = True
            return
        self._looked, self._stale = state, False
        self._tell_cut()
        self._shut()

    def look_again(self) -> None:
        """Something was found to have changed: the next look is one in any case."""
        self._stale = True

    def find(self, generation: Generation) -> OpenFile | None:
        """Returns the open file of a generation that is to be read; None where it is nowhere."""
        if generation.file is not None and not (
            generation.is_intact()
            and (generation.expected is None or generation.expected.holds(generation.file))
        ):
            generation.close()
        for _ in range(LOOKS):
            if generation.file is not None:
                break
            with suppress(Renamed):
                siblings = listing(self.path)
                self._find(siblings)
                # A copy may have been made, or written to its end, since they were listed.
                if set(siblings) == set(listing(self.path)):
                    break
        return generation.file

    def _state(self) -> tuple[int, ...] | None:
        """Returns what changes when the file at the path is another one.

        The inode of a file that is open is not used again. While there is no whole line none is
        open, and anything that happens to the file counts."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        state = (status.st_dev, status.st_ino)
        return (*state, status.st_size, status.st_ctime_ns) if self._waiting else state

    def _find(self, siblings: Sequence[Sibling]) -> Used:
        """Opens the files of generations; returns where they are."""
        for generation in self.generations:
            if generation.file is not None and not generation.is_intact():
                generation.close()
        return Search(self.path, self.generations, siblings, self._access).run()

    # ---- new files -------------------------------------------------------------------------------

    def _discover(self, siblings: Sequence[Sibling], used: Used) -> None:
        """Takes up files that are newer than those that are known."""
        current = [s for s in siblings if s.path == self.path]
        # The present file first: a copy of it may be being made.
        present = [
            g for s in current if s.path not in used and (g := self._identify(s, [])) is not None
        ]
        self._waiting = not present and any(s.path not in used for s in current)
        older: list[Generation] = []
        try:
            for sibling in reversed(self._newer(siblings, used)):
                if sibling.path not in used:
                    new = self._identify(sibling, [*present, *older])
                    older += [] if new is None else [new]
            if (present or older) and self._changed_since(siblings):
                raise Renamed  # what the file at the path was a moment ago may be beside it now
        except Renamed:
            for generation in (*present, *older):
                generation.close()
            raise
        self._tell_lost([*older, *present])
        self.generations += [*reversed(older), *present]

    def _changed_since(self, siblings: Sequence[Sibling]) -> bool:
        """True if the log was rotated since the siblings were listed."""
        before, now = (
            {(s.path, s.inode) for s in rotated(self.path, found)}
            for found in (siblings, listing(self.path))
        )
        return before != now

    def _newer(self, siblings: Sequence[Sibling], used: Used) -> list[Sibling]:
        """Returns the rotated files that are newer than the last one that was read."""
        members = rotated(self.path, siblings)
        if any(s.path == self.path and s.path in used for s in siblings):
            return []
        if not self.generations:
            return self._since_begun(members, siblings)
        found = [i for i, s in enumerate(members) if s.path in used]
        if found:
            return members[found[-1] + 1 :]
        last = self.generations[-1].modified
        return [s for s in members if last and s.modified > last]

    def _since_begun(
        self, members: Sequence[Sibling], siblings: Sequence[Sibling]
    ) -> list[Sibling]:
        """Returns the rotated files that are read although no file of the log was yet."""
        if self.since is not None:
            return [s for s in members if s.modified > self.since]
        self.since = max(
            (s.modified for s in siblings if s in members or s.path == self.path), default=0
        )
        return [s for s in members if self._takes_older and not s.archive]

    def _identify(self, sibling: Sibling, new: Sequence[Generation]) -> Generation | None:
        """Returns the new file as one of the log; None for a copy, a file of another log, and as
        long as there is no whole line."""
        if self._is_elsewhere(sibling.inode):
            return None
        file = open_sibling(self.path, sibling, self._access)
        if file is None:
            return None
        others = [*self.generations, *new]
        copied = sibling.path != self.path and any(
            g.has_copy(file) or (g.file is not None and is_copy(file, g.file)) for g in others
        )
        generation = None if copied else identified(self.path, file, {g.shard for g in others})
        if generation is None:
            file.close()
        return generation

    def _tell_lost(self, new: Sequence[Generation]) -> None:
        """Tells of files the rest of which is nowhere, where they were being read."""
        for i, generation in enumerate(self.generations):
            later = self.generations[i + 1 :]
            if not generation.gone or generation.told or any(g.offset for g in later):
                continue
            if later or new:
                self._tell(generation, generation.offset)

    def _tell(self, generation: Generation, end: int) -> None:
        generation.told = True
        self.lost += 1
        log.warning(LOST, self._table, end, self.path)

    def _tell_cut(self) -> None:
        """Tells of files that were seen to be longer than the copies that are left of them."""
        for generation in self.generations:
            size = None if generation.file is None else generation.file.size()
            if size is not None and size < generation.size and not generation.told:
                self._tell(generation, size)

    def _shut(self) -> None:
        """Closes files that nobody writes to any more."""
        for generation in self.generations[:-_OPEN]:
            file = generation.file
            if file is None or (generation.drained and (generation.shut or _is_read(generation))):
                generation.close()
                generation.shut = True


def _is_read(generation: Generation) -> bool:
    """True if the open file is read to its last byte."""
    file = generation.file
    return file is not None and (file.final or file.size() == generation.offset)
