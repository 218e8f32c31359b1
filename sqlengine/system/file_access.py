"""The files that SQL may read and write, and how they are opened.

What is judged is what was opened, not its name: links are resolved, also those that are made
between two looks. Nothing but regular files is ever opened: a FIFO would hold up its reader, and
to open a device may do something."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parser.errors import ExecutionError, OptionError
from sqlengine.system.disk import Disk, MachineDisk
from sqlengine.system.rights import make_shared_folder, share

# The kernel's own, but for memory that is a file system like others.
_KERNEL: Final = ("/proc", "/sys", "/dev")
_SHARED_MEMORY: Final = "/dev/shm"
_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISLNK, "a link"),
)
# What is in DATA for tables.
TABLE_FILES: Final = "files"


class PathRefused(OptionError):
    """SQL may not use a path; `why` follows it in the message."""

    def __init__(self, path: Path, why: str, *, detail: str, hint: str | None = None) -> None:
        super().__init__(f"'{path}' {why}", detail=detail, hint=hint)
        self._path, self._why = path, why

    def of_table(self, table: str, option: str | None = None) -> PathRefused:
        """Names the table that has the path, and its option; returns the error itself."""
        self.message = f"'{self._path}' of table '{table}' {self._why}"
        self.subject = option
        return self


def kind_of(mode: int) -> str | None:
    """Returns what a path is, by its mode; None for a regular file."""
    if stat.S_ISREG(mode):
        return None
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "no file")


@dataclass(frozen=True)
class FileAccess:
    """The folders below which SQL may read and write: None for any, as in a program that embeds the
    engine.

    `data`: the server's data folder, where `files` alone is for tables. `command`: what takes
    --files, for hints."""

    folders: tuple[Path, ...] | None = None
    data: Path | None = None
    command: str = "sql serve"

    def check(self, path: Path, *, table: str | None = None, option: str | None = None) -> None:
        """Raises PlanError for a path that SQL may not use; `table`: the one that names it, in this
        option. Nothing needs to be there yet."""
        try:
            self._check(path, os.path.realpath(path))
        except PathRefused as error:
            raise (error if table is None else error.of_table(table, option)) from None

    def check_file(
        self, path: Path, *, table: str | None = None, option: str | None = None
    ) -> None:
        """Raises as `check`, and ExecutionError for what is there and is no regular file."""
        self.check(path, table=table, option=option)
        if os.path.exists(path) and (kind := kind_of(os.stat(path).st_mode)) is not None:
            raise not_regular(path, kind)

    def open(self, path: str | Path) -> int:
        """Opens a regular file for reading.

        ExecutionError where it is something else, which is not opened; PlanError where SQL may not
        read it; OSError as the system raises it."""
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            kind = kind_of(os.fstat(found).st_mode)
            self._check(Path(path), _real(found))
            if kind is not None:
                raise not_regular(path, kind)
            return os.open(f"/proc/self/fd/{found}", os.O_RDONLY | os.O_CLOEXEC)
        finally:
            os.close(found)

    def read(self, path: Path) -> bytes:
        """Reads a regular file as a whole; raises as `open`."""
        with os.fdopen(self.open(path), "rb") as file:
            return file.read()

    @contextmanager
    def folder(self, path: Path) -> Iterator[int]:
        """Opens a folder, for what is opened in it; PlanError where SQL may not use it."""
        found = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._check(path, _real(found))
            yield found
        finally:
            os.close(found)

    def disk(self, disk: Disk) -> Disk:
        """Returns the disk for what SQL writes; one that is no ordinary disk stays as it is."""
        return AllowedDisk(self) if type(disk) is MachineDisk else disk

    def _check(self, path: Path, real: str) -> None:
        if any(_is_below(real, k) for k in _KERNEL) and not _is_below(real, _SHARED_MEMORY):
            raise PathRefused(
                path,
                "is the system's own",
                detail=f"nothing below {', '.join(_KERNEL)} is a table's",
            )
        data = None if self.data is None else os.path.realpath(self.data)
        own = None if data is None else f"{data}/{TABLE_FILES}"
        if data is not None and _is_below(real, data) and not _is_below(real, str(own)):
            raise PathRefused(
                path,
                "is in the server's data folder",
                detail=f"'{data}' is the server's own, but for '{own}'",
                hint=f"keep files of tables in '{own}', or in another folder that --files names",
            )
        if self.folders is not None and not any(
            _is_below(real, os.path.realpath(folder)) for folder in self.folders
        ):
            raise self._outside(path, real)

    def _outside(self, path: Path, real: str) -> PathRefused:
        wanted = real if os.path.isdir(real) or not os.path.exists(real) else os.path.dirname(real)
        allowed = ", ".join(f"'{folder}'" for folder in self.folders or ())
        where = "" if str(path) == real else f"it is '{real}'; "
        return PathRefused(
            path,
            "is outside the folders that SQL may use",
            # In the detail: the reason of a job that has failed has no hint.
            detail=(
                f"{where}tables may be below {allowed}; allow it with"
                f" {self.command} --files {shlex.quote(wanted)}"
            ),
        )


ANY_FILES: Final = FileAccess()


class AllowedDisk(MachineDisk):
    """The disk of this machine where SQL may write. Files are never opened by a link."""

    def __init__(self, access: FileAccess) -> None:
        self._access = access

    def open(
        self, path: Path, *, make: bool = False, empty: bool = False, mode: int = 0o600
    ) -> int:
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | make * os.O_CREAT | empty * os.O_TRUNC
        with self._access.folder(path.parent) as folder:
            try:
                file = _opened(path.name, flags | os.O_NONBLOCK, mode, folder)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise not_regular(path, "a link") from None
                error.filename = str(path)
                raise
        kind = kind_of(os.fstat(file).st_mode)
        if kind is not None:
            os.close(file)
            raise not_regular(path, kind)
        return file

    def read(self, path: Path, size: int = -1) -> bytes:
        with os.fdopen(self._access.open(path), "rb") as file:
            return file.read(size)

    def make_folder(self, path: Path, *, parents: bool = False, mode: int = 0o777) -> None:
        self._access.check(path)
        make_shared_folder(path, parents=parents, mode=mode)

    def rename(self, old: Path, new: Path) -> None:
        self._access.check(new.parent)
        super().rename(old, new)

    def remove(self, path: Path) -> None:
        self._access.check(path.parent)
        super().remove(path)

    def remove_folder(self, path: Path) -> None:
        self._access.check(path)
        super().remove_folder(path)


def _opened(name: str, flags: int, mode: int, folder: int) -> int:
    """Opens a file of a table; one that is new gets the rights of such files."""
    if flags & os.O_CREAT:
        with suppress(FileExistsError):
            file = os.open(name, flags | os.O_EXCL, mode, dir_fd=folder)
            share(file, mode)
            return file
    return os.open(name, flags, mode, dir_fd=folder)


def not_regular(path: str | Path, kind: str) -> ExecutionError:
    """Returns the error for a path that is no file with bytes to be read or written."""
    return ExecutionError(f"'{path}' is {kind}, and tables are made of regular files")


def _real(file: int) -> str:
    """Returns the path of an open file or folder. FileNotFoundError where it has none any more."""
    path = os.readlink(f"/proc/self/fd/{file}")
    if path.endswith(" (deleted)") and not os.path.exists(path):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return path


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
