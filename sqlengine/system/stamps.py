"""Stamps of files, by which a change is seen without reading them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

# Times of content and of status (ns), size (bytes), number of the file, mode.
Stamp: TypeAlias = tuple[int, int, int, int, int]


def stamp_of(path: Path) -> Stamp | None:
    """Returns the stamp of a file; None where there is none that can be looked at."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_mode
