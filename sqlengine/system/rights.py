"""Rights of files: what a server keeps is for its user alone, and files of tables are for others
too, as the umask says with which the server was started."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

# The umask of files of tables, in octal digits. Child processes inherit it.
TABLE_UMASK: Final = "SQLENGINE_TABLE_UMASK"
_PRIVATE: Final = 0o077
# Names that are looked at in a data folder.
_LOOKED_AT: Final = 10_000


def keep_private() -> None:
    """Makes the files of this process and its children their user's alone, but for those of
    tables."""
    before = os.umask(_PRIVATE)
    os.environ.setdefault(TABLE_UMASK, f"{before:03o}")


def share(file: int | Path, mode: int) -> None:
    """Gives a new file or folder of a table its rights: `mode`, less the umask of tables. Without
    `keep_private` it has them already."""
    text = os.environ.get(TABLE_UMASK, "")
    if text and all(digit in "01234567" for digit in text):
        os.chmod(file, mode & ~int(text, 8) & 0o777)


def make_shared_folder(path: Path, *, parents: bool, mode: int = 0o777) -> None:
    """Creates a folder of a table, with `parents` also those above it that are missing."""
    missing = [p for p in (path, *path.parents) if not p.exists()] if parents else [path]
    path.mkdir(mode, parents=parents, exist_ok=parents)
    for made in missing:
        share(made, mode)


def concerns(data: Path, run: Sequence[tuple[str, Path]]) -> list[str]:
    """Returns what is wrong with the rights of a data folder, and of folders whose content is `run`
    (what each is, and where)."""
    found = []
    mode = _mode(data)
    if mode & _PRIVATE:
        found.append(
            f"others than this user may use the data folder '{data}' (mode ..{mode & 0o077:02o}):"
            f" chmod 700 {data}"
        )
        found += _open_files(data)
    for what, folder in run:
        if _mode(folder) & 0o022:
            found.append(
                f"others than this user may write to the {what} '{folder}', and what is there runs"
                f" as this user: chmod go-w {folder}"
            )
    return found


def _open_files(data: Path) -> list[str]:
    """Returns a line on the files of a data folder that others may read or write."""
    names = islice((Path(f, n) for f, _, ns in os.walk(data) for n in ns), _LOOKED_AT)
    open_ = [path for path in names if _mode(path) & _PRIVATE]
    if not open_:
        return []
    told = f"others than this user may use {len(open_):,} files in '{data}', such as '{open_[0]}'"
    return [f"{told}: chmod -R go= {data}"]


def _mode(path: Path) -> int:
    """Returns the mode of a path; 0 where there is none."""
    try:
        found = path.lstat().st_mode
    except OSError:
        return 0
    return 0 if stat.S_ISLNK(found) else found
