"""Finding the files of a log again, under other names, as copies and as archives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from parser.errors import ExecutionError
from sqlengine.connectors.filesystem.generations import Generation, is_copy
from sqlengine.connectors.filesystem.opened import OpenFile, open_file
from sqlengine.connectors.filesystem.siblings import Sibling, rotated

# Looks at a folder in which files are being renamed.
LOOKS: Final = 100

# Which generation a file is, by path.
Used: TypeAlias = dict[str, Generation]


class Renamed(Exception):
    """A file has another name than a moment ago: look again."""


def open_sibling(path: str, sibling: Sibling) -> OpenFile | None:
    """Opens a file beside the log at `path`; None where it may not be read, Renamed where it is
    another one now."""
    try:
        file = open_file(sibling.path)
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
        self, path: str, generations: Sequence[Generation], siblings: Sequence[Sibling]
    ) -> None:
        self._path = path
        self._generations = generations
        self._siblings = siblings
        self._used: Used = {}

    def run(self) -> Used:
        """Opens the files of generations, by inode, else by what is in them."""
        for generation in self._generations:
            self._by_inode(generation)
        at_path = [s for s in self._siblings if s.path == self._path]
        places = [*rotated(self._path, self._siblings), *at_path]
        for generation in self._generations:
            self._by_content(generation, places)
            generation.gone = generation.file is None
        return self._used

    def _by_inode(self, generation: Generation) -> None:
        inode = generation.inode if generation.file is None else generation.file.inode
        for sibling in self._siblings:
            if sibling.inode == inode and generation.file is not None:
                self._used[sibling.path] = generation
            elif sibling.inode == inode and not sibling.archive:  # which may have it anew
                self._try(generation, sibling)

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
            file = open_sibling(self._path, sibling) if sibling.archive else None
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
        file = open_sibling(self._path, sibling)
        if file is None:
            return False
        former = generation.file
        more = former is None or (self._has_rows(generation) and is_copy(former, file))
        if more and self._is_file_of(generation, file):
            generation.close()
            generation.file, self._used[sibling.path] = file, generation
            generation.inode = file.inode
            return True
        file.close()
        return False

    @staticmethod
    def _has_rows(generation: Generation) -> bool:
        """True if the open file has more than its first line, which other files may have, too."""
        length = generation.checks[0].length if generation.checks else 0
        return generation.file is not None and bool(generation.file.read(length, 1))

    def _is_file_of(self, generation: Generation, file: OpenFile) -> bool:
        if file.final and self._is_past(generation):
            # Enough to know an archive again; all of it would have to be decompressed to know more.
            return generation.begins(file)
        at_end = generation.offset
        return generation.is_in(file) and (not at_end or bool(file.read(at_end - 1, 1)))

    def _is_past(self, generation: Generation) -> bool:
        """True if a newer file was begun to be read, which is after the end of this one."""
        if generation.shut:
            return True
        later = self._generations[self._generations.index(generation) + 1 :]
        return any(g.offset for g in later)
