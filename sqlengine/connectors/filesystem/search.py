"""Finding the files of a log again, under other names, as copies and as archives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from parser.errors import ExecutionError, SqlError
from sqlengine.connectors.filesystem.generations import COPY, HEAD, Generation, is_copy
from sqlengine.connectors.filesystem.opened import OpenFile, open_file
from sqlengine.connectors.filesystem.siblings import Sibling, copies, listing, rotated
from sqlengine.system.file_access import FileAccess

# Looks at a folder in which files are being renamed.
LOOKS: Final = 100

# Which generation a file is, by path.
Used: TypeAlias = dict[str, Generation]


class Renamed(Exception):
    """A file has another name than a moment ago: look again."""


def open_sibling(path: str, sibling: Sibling, access: FileAccess) -> OpenFile | None:
    """Opens a file beside the log at `path`; None where it may not be read, Renamed where it is
    another one now."""
    try:
        file = open_file(sibling.path, access)
    except SqlError:
        if sibling.path == path:
            raise
        return None
    except OSError as error:
        if sibling.path == path:
            message = f"file '{path}' cannot be read: {error.strerror}"
            raise ExecutionError(message) from error
        return None
    if file is None or file.inode != sibling.inode:
        if file is not None:
            file.close()
        raise Renamed
    return file


class Search:
    """Looks for the files of generations, the oldest first, among the siblings of a log."""

    def __init__(
        self,
        path: str,
        generations: Sequence[Generation],
        siblings: Sequence[Sibling],
        access: FileAccess,
    ) -> None:
        self._access = access
        self._path = path
        self._generations = generations
        self._siblings = siblings
        self._used: Used = {}

    def run(self) -> Used:
        """Opens the files of generations, by inode, else by what is in them."""
        for generation in reversed(self._generations):
            self._by_inode(generation)
        at_path = [s for s in self._siblings if s.path == self._path]
        places = [*rotated(self._path, self._siblings), *at_path]
        for generation in self._generations:
            if generation.has_only_first_line:
                self._check_truncated(generation, places)
            self._by_content(generation, places)
            generation.gone = generation.file is None
        return self._used

    def _by_inode(self, generation: Generation) -> None:
        inode = generation.inode if generation.file is None else generation.file.inode
        for sibling in self._siblings:
            if sibling.path in self._used:
                continue
            if sibling.inode == inode and generation.file is not None:
                self._used[sibling.path] = generation
            elif sibling.inode == inode and not (
                sibling.archive and self._is_anew(generation, sibling)
            ):
                self._try(generation, sibling)

    @staticmethod
    def _is_anew(generation: Generation, archive: Sibling) -> bool:
        """True if an archive may have got the inode of a removed file with the same first line."""
        since = generation.modified or archive.modified
        return generation.has_only_first_line and archive.modified > since

    def _check_truncated(self, generation: Generation, places: Sequence[Sibling]) -> None:
        """Takes a copy or an archive for the file of which nothing but a first line was seen, where
        that file has another beginning now: it was emptied, or its inode is used again."""
        own = [i for i, s in enumerate(places) if self._used.get(s.path) is generation]
        file = generation.file
        if not own or file is None or file.modified() == generation.modified:
            return
        if not generation.modified and all(g.file is None for g in self._older(generation)):
            return  # nothing tells copies of it from files of before
        before = self._between(generation, places[: own[0]])
        copied = [data for s in before if (data := self._copied(generation, s)) is not None]
        head = file.read(0, COPY)
        if not all(map(head.startswith, copied)):
            generation.close()
            del self._used[places[own[0]].path]
            return
        if copies(self._path, listing(self._path)) != copies(self._path, self._siblings):
            raise Renamed  # one may have been made before the file was read
        if head.startswith(generation.head):
            generation.head = head[:HEAD]

    def _older(self, generation: Generation) -> Sequence[Generation]:
        return self._generations[: self._generations.index(generation)]

    def _copied(self, generation: Generation, sibling: Sibling) -> bytes | None:
        """Returns the first bytes of what may be a copy or an archive of a file; None if it
        cannot be."""
        file = open_sibling(self._path, sibling, self._access)
        if file is None:
            return None
        is_it = generation.may_be(file, sibling.modified) and generation.is_in_copy(file)
        for older in self._older(generation):
            is_it = is_it and (older.file is None or not is_copy(file, older.file))
        data = file.read(0, COPY) if is_it else None
        file.close()
        return data

    def _by_content(self, generation: Generation, places: Sequence[Sibling]) -> None:
        candidates = self._between(generation, places)
        if generation.file is None:
            self._try_all(generation, candidates)
        elif generation not in self._used.values():
            self._name_archive(generation, candidates)

    def _try_all(self, generation: Generation, candidates: Sequence[Sibling]) -> None:
        found = False
        for sibling in candidates:
            is_it = self._try(generation, sibling)
            if found and not is_it:
                break  # another file of the log, and so is what is newer
            found = found or is_it

    def _between(self, generation: Generation, places: Sequence[Sibling]) -> list[Sibling]:
        """Returns the files, the oldest first, that are newer than those known to be older, and
        older than those known to be newer."""
        own, used = self._generations.index(generation), self._used
        known = {
            i: self._generations.index(used[s.path]) for i, s in enumerate(places) if s.path in used
        }
        first = max((i + 1 for i, number in known.items() if number < own), default=0)
        end = min((i for i, number in known.items() if number > own), default=len(places))
        return [s for s in places[first:end] if s.path not in used]

    def _name_archive(self, generation: Generation, candidates: Sequence[Sibling]) -> None:
        """Finds the archive of a file that is open and has no name any more, so that it is not
        taken for a newer file with the same header."""
        assert generation.file is not None
        for sibling in candidates:
            file = open_sibling(self._path, sibling, self._access) if sibling.archive else None
            if file is None:
                continue
            same = is_copy(file, generation.file) and is_copy(generation.file, file)
            file.close()
            if same:
                self._used[sibling.path] = generation
                break

    def _try(self, generation: Generation, sibling: Sibling) -> bool:
        """Makes the file that of the generation, if it is; True if so.

        A newer file that has all of an older one is the file of which the older one is a copy."""
        if not generation.checks and sibling.path != self._path:
            return False  # of an older version, which knew files by their path
        file = open_sibling(self._path, sibling, self._access)
        if file is None:
            return False
        former = generation.file
        more = former is None or (self._has_rows(generation) and is_copy(former, file))
        if more and self._is_file_of(generation, file, sibling.modified):
            generation.close()
            self._take(generation, file, sibling)
            return True
        file.close()
        return False

    @staticmethod
    def _has_rows(generation: Generation) -> bool:
        """True if the open file has more than its first line, which other files may have, too."""
        length = generation.checks[0].length if generation.checks else 0
        return generation.file is not None and bool(generation.file.read(length, 1))

    def _take(self, generation: Generation, file: OpenFile, sibling: Sibling) -> None:
        generation.take_file(file)
        self._used[sibling.path] = generation

    def _is_file_of(self, generation: Generation, file: OpenFile, modified: int) -> bool:
        if not generation.checks or file.inode == generation.inode:
            return generation.is_in(file)
        if not generation.may_be(file, modified):
            return False
        if file.final and self._is_past(generation):
            # Enough to know an archive again; all of it would have to be decompressed to know more.
            return generation.begins(file)
        return generation.is_in_copy(file)

    def _is_past(self, generation: Generation) -> bool:
        """True if a newer file was begun to be read, which is after the end of this one."""
        if generation.shut:
            return True
        later = self._generations[self._generations.index(generation) + 1 :]
        return any(g.offset for g in later)
