"""The engine for executors on other machines: a zip of the packages that this process runs.

Executors put it before everything that is installed, so that they run what the driver runs. What
it needs besides (pyarrow, hyperscan, …) has to be installed there. This module does not import
Spark."""

from __future__ import annotations

import py_compile
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from hashlib import blake2s
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Final

from parser.errors import SqlError
from planner.catalog import Catalog
from rules.options import Options
from sqlengine.config import Config
from sqlengine.system.plugins import CONNECTORS, FORMATS, FUNCTIONS, own_points
from udf.user import is_user

# One of each package: in the wheel all of them are inside of one.
_MEMBERS: Final = (SqlError, Catalog, Options, Config, is_user)
_VERSION: Final = "0"  # of the metadata: nobody asks for it


def packages() -> list[Path]:
    """Returns the folders of the packages that this process has imported."""
    names = {member.__module__.partition(".")[0] for member in _MEMBERS}
    return [Path(str(sys.modules[name].__file__)).parent for name in sorted(names)]


def write_engine(folder: Path) -> Path:
    """Writes the zip into a folder; its name tells one content from another. Modules are compiled,
    as each worker would have to do it else."""
    sources = [(root, path) for root in packages() for path in sorted(root.rglob("*.py"))]
    digest = blake2s(digest_size=8)
    for root, path in sources:
        digest.update(f"{path.relative_to(root.parent)}\0".encode() + path.read_bytes())
    target = folder / f"sqlengine-{digest.hexdigest()}.zip"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as file, _compiled_in() as scratch:
        for root, path in sources:
            place = path.relative_to(root.parent)
            file.write(_compiled(path, str(place), scratch), place.with_suffix(".pyc"))
        for name, text in _metadata():
            file.writestr(f"sqlengine-{_VERSION}.dist-info/{name}", text)
    return target


def _compiled_in() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="sqlengine-")


def _compiled(path: Path, shown: str, folder: str) -> str:
    """Compiles a module; its time means nothing on another machine, so nothing checks it."""
    return str(
        py_compile.compile(
            str(path),
            f"{folder}/compiled",
            shown,
            doraise=True,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
    )


def _metadata() -> Iterator[tuple[str, str]]:
    """Yields the files by which Python knows the connectors and formats of the zip."""
    yield "METADATA", f"Metadata-Version: 2.1\nName: sqlengine\nVersion: {_VERSION}\n"
    groups = {group: own_points(group) for group in (CONNECTORS, FORMATS, FUNCTIONS)}
    yield "entry_points.txt", "".join(f"[{g}]\n{_lines(found)}" for g, found in groups.items())


def _lines(points: list[EntryPoint]) -> str:
    return "".join(f"{p.name} = {p.value}\n" for p in points)
