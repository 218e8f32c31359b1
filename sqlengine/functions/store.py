"""Sources of users' modules, kept by content: what a version of a job was submitted with is there
as long as the job's history is, whatever becomes of the files."""

from __future__ import annotations

import ast
import hashlib
import importlib.machinery
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from parser.errors import JobError, ServiceError
from udf.user import UserFunction

_FORMAT = 1
# A module is source code, perhaps with a table of data beside it.
MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class Sources:
    """The files of a module, by path below the folder from which it is imported."""

    files: Mapping[str, bytes]

    @cached_property
    def content(self) -> str:
        """The hash of all names and bytes."""
        h = hashlib.sha256()
        for name, data in sorted(self.files.items()):
            for part in (name.encode(), data):
                h.update(len(part).to_bytes(8, "little"))
                h.update(part)
        return h.hexdigest()


def collect(module: str, folder: Path, *, siblings: bool = True) -> Sources | None:
    """The module's files, found below `folder`; None where it is not there. With what it imports
    from the same folder, unless that is one of installed packages (`siblings` False)."""
    files: dict[str, bytes] = {}
    waiting = [module.partition(".")[0]]
    while waiting:
        name = waiting.pop()
        paths = _files_of(name, folder)
        if not paths and not files:
            return None
        new = {p.relative_to(folder).as_posix(): _read(p) for p in paths}
        files |= new
        if sum(map(len, files.values())) > MOST_BYTES:
            raise JobError(f"module '{module}' has more than {MOST_BYTES >> 20} MiB of files")
        if siblings:
            known = {path.partition("/")[0].removesuffix(".py") for path in files}
            imported = {
                i for path, data in new.items() if path.endswith(".py") for i in imports_of(data)
            }
            waiting += sorted(imported - known - set(waiting))
    return Sources(files)


def _files_of(name: str, folder: Path) -> list[Path]:
    single, package = folder / f"{name}.py", folder / name
    if package.is_dir():
        return sorted(p for p in package.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return [single] if single.is_file() else []


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise JobError(f"'{path}' cannot be read", detail=error.strerror) from None


def imports_of(source: bytes) -> set[str]:
    """First names of all modules that the source imports, wherever the import stands; nothing of
    what is no Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def installed(module: str) -> Path | None:
    """The folder from which an installed module would be imported; nothing is run for that."""
    first = module.partition(".")[0]
    spec = importlib.machinery.PathFinder.find_spec(first)
    if spec is None or spec.origin is None or not spec.has_location:
        return None
    origin = Path(spec.origin)
    return origin.parents[1] if spec.submodule_search_locations else origin.parent


class ModuleStore:
    """Folders of sources by content, each with what is known of its functions. Several processes
    may write: what stands under a content's name is whole, since it comes by a rename."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def sources(self, content: str) -> Path:
        """Returns the folder with the sources of a content. ServiceError where it is missing."""
        path = self.folder / content / "sources"
        if not path.is_dir():
            raise ServiceError(
                f"the sources of a function, content {content[:16]}, are gone",
                detail=f"they were kept in '{self.folder / content}'",
                hint="submit the job again, with the module at its place",
            )
        return path

    def put(self, sources: Sources) -> Path:
        """Keeps the files, if they are not kept yet."""
        return self.put_as(sources.content, sources.files)

    def put_as(self, content: str, files: Mapping[str, bytes]) -> Path:
        """Keeps the files of a content, if they are not kept yet; returns their folder."""
        target = self.folder / content
        if not target.is_dir():
            self.folder.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
            try:
                for name, data in files.items():
                    path = scratch / "sources" / name
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(data)
                _rename(scratch, target)
            except OSError as error:
                raise ServiceError(
                    "the sources of a function cannot be kept", detail=str(error)
                ) from None
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        return target / "sources"

    def function(self, content: str, place: str) -> UserFunction | None:
        """Returns what is known of a function; None where its module was not described yet."""
        path = self._about(content, place)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        known = msgspec.json.decode(data, type=_Known)
        return known.function if known.format == _FORMAT else None

    def learn(self, function: UserFunction) -> None:
        path = self._about(function.content, function.place)
        scratch = path.with_name(f".{path.name}-{os.getpid()}")
        scratch.write_bytes(msgspec.json.encode(_Known(_FORMAT, function)))
        scratch.replace(path)

    def _about(self, content: str, place: str) -> Path:
        return self.folder / content / f"{place}.json"


@dataclass(frozen=True)
class _Known:
    format: int
    function: UserFunction


def _rename(scratch: Path, target: Path) -> None:
    try:
        scratch.rename(target)
    except OSError:
        if not target.is_dir():  # another process was quicker otherwise
            raise


def inside(path: Path, folders: Iterable[Path]) -> bool:
    """True if the file is below one of the folders, links followed."""
    real = path.resolve()
    return any(real.is_relative_to(f.resolve()) for f in folders)
