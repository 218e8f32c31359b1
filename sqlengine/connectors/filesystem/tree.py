"""The files below a folder."""

from __future__ import annotations

import os
from pathlib import Path

from parser.errors import ExecutionError
from sqlengine.system.file_access import kind_of


def regular_files(root: Path) -> tuple[list[Path], dict[str, str]]:
    """Returns the file itself, or all below the folder, sorted; and what is there besides, by what
    it is.

    Names that begin with . or _ and folders that are links are left out. ExecutionError for a
    folder that cannot be listed, and for a name that is no text."""
    if root.is_file():
        return [root], {}
    paths: list[Path] = []
    irregular: dict[str, str] = {}
    waiting = [str(root)]
    while waiting:
        for entry in _entries(waiting.pop()):
            if entry.name[0] in "._":
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
                continue
            kind = _kind(entry)
            if kind is None:
                paths.append(Path(_text(entry.path)))
            elif not (entry.is_symlink() and kind == "a folder"):
                irregular[entry.path] = kind
    return sorted(paths), irregular


def files_below(root: Path) -> list[Path]:
    """Returns the regular files alone."""
    return regular_files(root)[0]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        return []  # it has gone since it was listed
    except OSError as error:
        raise ExecutionError(
            f"folder '{folder}' cannot be listed", detail=error.strerror, hint="make it readable"
        ) from None


def _kind(entry: os.DirEntry[str]) -> str | None:
    """Returns what an entry is, None for a regular file; a link is what it leads to."""
    try:
        return None if entry.is_file() else kind_of(entry.stat().st_mode)
    except OSError as error:
        return f"a link that leads nowhere ({error.strerror})"


def _text(path: str) -> str:
    """Returns a path whose bytes are UTF-8: it becomes part of rows and records."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise ExecutionError(
            f"the name of file {os.fsencode(path)!r} is no UTF-8", hint="rename it"
        ) from None
    return path
