"""The files beside a log that rotation has made of it: under which names, and in which order."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from sqlengine.connectors.filesystem.opened import ARCHIVES

# What rotation puts behind the name of a log, or before its extension: a number, a date, or a word.
_PART: Final = r"[.\-_~](?:\d[\dTZ:+._\-]*|old|bak|prev)"
_ENDING: Final = "|".join(map(re.escape, ARCHIVES))
# Numbers that speak against the times of change: files of a burst have about the same time.
_CLEAR_NS: Final = 60 * 10**9
_LISTINGS: Final = 5


@dataclass(frozen=True)
class Sibling:
    """A file in the folder of a log. `modified` in ns; `number`: of `app.log.N`, else None."""

    path: str
    inode: int
    modified: int
    number: int | None = None

    @property
    def archive(self) -> bool:
        """True if it is compressed."""
        return self.path.endswith(ARCHIVES)


def logs_of(name: str) -> set[str]:
    """Returns the names of logs of which a file of this name can be an older one.

    >>> [sorted(logs_of(n)) for n in ("a.log.1", "a.log.gz", "a-2024.log.gz", "a.log")]
    [['a.log'], ['a.log'], ['a-2024.log', 'a.log'], []]
    """
    plain = name
    for ending in ARCHIVES:
        plain = plain.removesuffix(ending)
    stem, extension = os.path.splitext(plain)
    found = {*_without_part(plain), *(base + extension for base in _without_part(stem))}
    return found | ({plain} if plain != name else set())


def was_rotated(path: Path) -> bool:
    """True if older files of a log are there, whose own file may be missing."""
    folder = path.parent
    return folder.is_dir() and any(path.name in logs_of(p.name) for p in folder.iterdir())


def _without_part(name: str) -> list[str]:
    places = [i for i, c in enumerate(name) if c in ".-_~" and i]
    return [name[:i] for i in places if re.fullmatch(_PART, name[i:])]


def copies(path: str, siblings: Sequence[Sibling]) -> set[Sibling]:
    """Returns the older files of a log, and what has its name with something behind it."""
    return {s for s in rotated(path, siblings) if s.path != path}


def listing(path: str) -> list[Sibling]:
    """Returns the files in the folder of the log, and of the file that it is a link to. While files
    are being renamed it is read again."""
    found = _listed(path)
    for _ in range(_LISTINGS):
        again = _listed(path)
        if {(s.path, s.inode) for s in again} == {(s.path, s.inode) for s in found}:
            break
        found = again
    return found


def _listed(path: str) -> list[Sibling]:
    found: dict[str, Sibling] = {}
    for place in dict.fromkeys((path, os.path.realpath(path))):
        name = os.path.basename(place)
        try:
            entries = list(os.scandir(os.path.dirname(place) or "."))
        except FileNotFoundError:
            continue
        for entry in entries:
            path_of = os.path.join(os.path.dirname(place), entry.name)
            sibling = None if entry.name[0] in "._" else _sibling(entry, path_of, name)
            if sibling is not None:
                found[path_of] = sibling
    return list(found.values())


def _sibling(entry: os.DirEntry[str], path: str, log: str) -> Sibling | None:
    try:
        if not entry.is_file():
            return None
        status = entry.stat()
    except FileNotFoundError:
        return None
    number = re.fullmatch(rf"{re.escape(log)}\.(\d{{1,3}})(?:{_ENDING})?", entry.name)
    return Sibling(
        path, status.st_ino, status.st_mtime_ns, int(number.group(1)) if number else None
    )


def rotated(path: str, siblings: Sequence[Sibling]) -> list[Sibling]:
    """Returns the older files of a log, the oldest first; an archive only without its original."""
    names = {os.path.basename(path), os.path.basename(os.path.realpath(path))}
    plain = {s.path for s in siblings}
    members = [
        s
        for s in siblings
        if not names.isdisjoint(logs_of(os.path.basename(s.path)))
        and (not s.archive or os.path.splitext(s.path)[0] not in plain - {path})
    ]
    by_time = sorted(members, key=lambda s: (s.modified, -(s.number or 0), s.path))
    if any(s.number is None for s in members):
        return by_time
    # The highest number is the oldest, as with logrotate, unless the times clearly speak against
    # that.
    by_number = sorted(members, key=lambda s: (-(s.number or 0), s.path))
    pairs = list(pairwise(by_number))
    against = [old.modified - new.modified > _CLEAR_NS for old, new in pairs]
    return by_time if against and all(against) else by_number
