"""Scripts below a folder: listing and reading them, the names of their jobs, and their errors."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from parser.errors import ServiceError, SqlError
from sqlengine.sigma.files import MAPPING, is_rule_file

SUFFIX = ".sql"
MAX_BYTES = 16 << 20
MAX_NAME = 200
NAME = re.compile(r"[A-Za-z0-9_.-]+")

Stamp = tuple[int, int, int, int]  # what changes whenever a file does: mtime, ctime, size, inode


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A script that was read. `sha` is the hex SHA-256 of its bytes, `owner` the id of the user
    whose file it is."""

    path: Path
    text: str
    sha: str
    owner: int


def job_name(path: Path, folder: Path) -> str:
    """Returns the name of the job in `path`: the path below `folder` without `.sql`, `/` as `.`.

    Raises ServiceError if that is no job name.
    """
    return checked_name(".".join(path.relative_to(folder).parts).removesuffix(SUFFIX), path)


def checked_name(name: str, path: Path) -> str:
    """Returns the name of a job in `path`. ServiceError if it is none."""
    if not NAME.fullmatch(name):
        raise ServiceError(
            f"file name {path.name!r} is not a job name",
            detail=f"the job would be called {name!r}",
            hint=(
                "rename the file, and the folders above it, to letters A-Z a-z, digits, '_', '.'"
                " and '-'"
            ),
        )
    if len(name) > MAX_NAME:
        raise ServiceError(
            f"job name {name[:40]!r}... has {len(name)} characters, at most {MAX_NAME} are allowed",
            hint="shorten the names of the file and of the folders above it",
        )
    return name


@dataclass(frozen=True, slots=True)
class Listing:
    """The scripts below a folder, the folders that could not be read, and the files of Sigma: rules
    and the mapping."""

    files: dict[Path, Stamp]
    closed: dict[Path, str]
    sigma: dict[Path, Stamp] = field(default_factory=dict)

    @property
    def every(self) -> dict[Path, Stamp]:
        return {**self.files, **self.sigma}


def list_scripts(folder: Path) -> Listing:
    files: dict[Path, Stamp] = {}
    closed: dict[Path, str] = {}
    sigma: dict[Path, Stamp] = {}
    pending = [folder]
    while pending:
        current = pending.pop()
        try:
            entries = sorted(os.scandir(current), key=lambda entry: entry.name)
        except FileNotFoundError as error:
            if current == folder:
                closed[folder] = str(error.strerror)
            continue
        except OSError as error:
            closed[current] = str(error.strerror)
            continue
        for entry in entries:
            if entry.name.startswith("."):  # editors, version control
                continue
            if entry.is_dir(follow_symlinks=False):
                pending.append(Path(entry.path))
            elif entry.name.endswith(SUFFIX):
                files.update(_stamped(entry, folder))
            elif is_rule_file(entry.name) or (entry.name == MAPPING and current == folder):
                sigma.update(_stamped(entry, folder))
    return Listing(files, closed, sigma)


def _stamped(entry: os.DirEntry[str], folder: Path) -> Iterator[tuple[Path, Stamp]]:
    path = Path(entry.path)
    try:
        if entry.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(folder):
            return
        info = path.stat()
    except OSError:  # vanished, or a link that leads nowhere or in a circle
        return
    if not stat.S_ISDIR(info.st_mode):
        yield path, _stamp(info)


def _stamp(info: os.stat_result) -> Stamp:
    return info.st_mtime_ns, info.st_ctime_ns, info.st_size, info.st_ino


class Moving(Exception):
    """A file changed or vanished while it was read."""


def load(path: Path, stamp: Stamp) -> SourceFile:
    if stamp[2] > MAX_BYTES:
        hint = "split it into several scripts"
        raise ServiceError(
            f"file {path.name!r} has {stamp[2]} bytes, at most {MAX_BYTES} are allowed", hint=hint
        )
    try:
        data, owner = _bytes(path, stamp)
        text = data.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise Moving from error
    except OSError as error:
        hint = "let the user that runs the server read it"
        raise ServiceError(
            f"file {path.name!r} cannot be read", detail=error.strerror, hint=hint
        ) from error
    except UnicodeDecodeError as error:
        detail = f"{error.reason} at byte {error.start}"
        raise ServiceError(
            f"file {path.name!r} is not UTF-8", detail=detail, hint="save it as UTF-8"
        ) from error
    if not text.strip():
        hint = "write its statements, or delete the file to remove the job"
        raise ServiceError(f"file {path.name!r} is empty", hint=hint)
    return SourceFile(path, text, hashlib.sha256(data).hexdigest(), owner)


def _bytes(path: Path, stamp: Stamp) -> tuple[bytes, int]:
    """Returns the content of a file, and the id of its owner."""
    # A pipe without a writer must not block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(0, "it is not a regular file")
        data = file.read(MAX_BYTES + 1)
        if _stamp(os.fstat(descriptor)) != stamp or len(data) != stamp[2]:
            raise Moving
    return data, about.st_uid


def closed_folder(path: Path, why: str) -> SqlError:
    hint = "the jobs below it stay as they are; make it readable again, or remove the jobs by name"
    return ServiceError(f"folder {str(path)!r} cannot be read", detail=why.lower(), hint=hint)


def ambiguous(name: str, path: Path, others: list[Path]) -> SqlError:
    return ServiceError(
        f"file {path.name!r} gives the job {name!r}, which another file gives, too",
        detail=", ".join(str(other) for other in others),
        hint="rename or delete one of them",
    )
