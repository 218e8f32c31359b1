"""The number of a data folder's format, and the steps that bring a folder of an older version to
the present one.

`DATA/format.json` holds the number and the version that wrote it; folders of the first 0.1 have
none, they are number 1. Everything within a folder has a format number of its own as well: whoever
raises one of them raises `FORMAT` here and adds a step, which rewrites what the older version left
(`tests/state/test_data_folders.py` says so)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from parser.errors import ServiceError
from sqlengine.system.disk import Disk, write_file

log = logging.getLogger("sqlengine")

VERSION: Final = "0.1.0"
FORMAT: Final = 2
FILE: Final = "format.json"
_UNNUMBERED: Final = 1
# Files of a folder that a step may rewrite are copied up to this size; what can be computed again,
# and what is no state, is not.
_SMALL: Final = 1 << 20
_NOT_KEPT: Final = frozenset(
    {"lock", "trash", "patterns", "plans.sqlite", "plans.sqlite-wal", "plans.sqlite-shm"}
)
_BACKUP: Final = "backup-format-"


class _Number(msgspec.Struct):
    """The content of the file. `version`: of the server that last wrote to the folder."""

    format: int
    version: str = "unknown"


@dataclass(frozen=True)
class Step:
    """Brings a folder from one number to the next. `run` may be called again after a crash in its
    midst; `rewrites`: it changes files, so that small ones are copied before."""

    doc: str
    run: Callable[[Path, Disk], None]
    rewrites: bool = True


def _nothing(folder: Path, disk: Disk) -> None:
    """Leaves the folder as it is: its number is all that is new."""


# The step from each number to the next.
STEPS: Final[Mapping[int, Step]] = {
    1: Step("folders have a number", _nothing, rewrites=False),
}


def prepare_folder(folder: Path, disk: Disk) -> None:
    """Brings a data folder to the present format, or marks a new one. The caller has its lock.

    Raises ServiceError for a folder of a later version, and for one that is too old."""
    found = _read(folder, disk)
    if found is None:
        _write(folder, disk, FORMAT)
        return
    if found.format > FORMAT:
        raise ServiceError(
            f"data folder '{folder}' has format {found.format} of version {found.version}; this is"
            f" version {VERSION}, which reads formats up to {FORMAT}",
            hint=f"start version {found.version} or a later one, or begin with an empty folder",
        )
    for number in range(found.format, FORMAT):
        _migrate(folder, disk, number)
        _write(folder, disk, number + 1)
    if found.format == FORMAT and found.version != VERSION:
        _write(folder, disk, FORMAT)


def _migrate(folder: Path, disk: Disk, number: int) -> None:
    step = STEPS.get(number)
    if step is None:
        raise ServiceError(
            f"data folder '{folder}' has format {number}, which version {VERSION} cannot migrate",
            hint="start a version between that one and this one first",
        )
    log.info("data folder %s: from format %d to %d (%s)", folder, number, number + 1, step.doc)
    if step.rewrites:
        backup = folder / f"{_BACKUP}{number}"
        copied = _back_up(folder, backup, disk)
        log.info("data folder %s: %d files as they were are in %s", folder, copied, backup)
    step.run(folder, disk)


def _back_up(folder: Path, backup: Path, disk: Disk) -> int:
    """Copies small files of the folder; a copy that an interrupted migration made is kept, since
    the files may be half new by now. Returns the number of copies."""
    done = backup.with_name(backup.name + ".complete")
    if disk.exists(done):
        return 0
    copied = 0
    for path in _files(folder, disk):
        if disk.size(path) > _SMALL:
            continue
        target = backup / path.relative_to(folder)
        disk.make_folder(target.parent, parents=True, mode=0o700)
        write_file(disk, target, disk.read(path))
        copied += 1
    write_file(disk, done, b"")
    disk.sync_folder(folder)
    return copied


def _files(folder: Path, disk: Disk) -> Iterator[Path]:
    for name in sorted(disk.names(folder)):
        path = folder / name
        if name in _NOT_KEPT or name.startswith(_BACKUP):
            continue
        if disk.is_folder(path):
            yield from _files(path, disk)
        else:
            yield path


def _read(folder: Path, disk: Disk) -> _Number | None:
    """Returns the number of a folder; None for a new one, which has no topics yet."""
    if disk.exists(folder / FILE):
        try:
            return msgspec.json.decode(disk.read(folder / FILE), type=_Number)
        except (msgspec.DecodeError, UnicodeDecodeError, OSError) as error:
            raise ServiceError(
                f"'{folder / FILE}' is damaged, or cannot be read",
                detail=str(error),
                hint=f'it holds {{"format": N}}: {FORMAT} is that of version {VERSION}',
            ) from None
    return _Number(_UNNUMBERED, "0.1") if disk.exists(folder / "topics") else None


def _write(folder: Path, disk: Disk, number: int) -> None:
    """Writes the number, at once or not at all."""
    unfinished = folder / f"{FILE}.new"
    write_file(disk, unfinished, msgspec.json.encode(_Number(number, VERSION)))
    disk.rename(unfinished, folder / FILE)
    disk.sync_folder(folder)
