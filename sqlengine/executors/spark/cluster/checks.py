"""Checks of executors: the engine imports there, and they see the folder of the state.

A session is asked once, on all executors that it has. Those that come later are found out by their
first task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Final, TypeAlias

from parser.errors import ServiceError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("sqlengine.spark")

# The libraries on whose versions the rows may depend.
LIBRARIES: Final = ("hyperscan", "msgspec", "numpy", "pyarrow", "regex", "sqlglot", "xxhash")
# What a task has found on its machine, by a name of `_looking`.
Found: TypeAlias = Mapping[str, str]


def check_executors(session: SparkSession, folder: Path, shipped: str) -> None:
    """Runs a task on each core and judges what they find. ServiceError where the engine does not
    run, or `folder` is not that of this machine. `shipped`: the name of the zip with the engine."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / f".seen-{token_hex(8)}"
    mark.touch()
    try:
        context = session.sparkContext
        tasks: int = context.defaultParallelism
        looked = context.parallelize(range(tasks), tasks).map(_looking(str(mark), LIBRARIES))
        found: list[Found] = looked.collect()
        judge(found, shipped, {library: version(library) for library in LIBRARIES})
        absent = [f["host"] for f in found if not Path(f["wrote"]).exists()]
        if absent:
            raise _unseen(folder, [f"{host} writes to a folder of its own" for host in absent])
    finally:
        for file in folder.glob(f"{mark.name}*"):
            file.unlink(missing_ok=True)


def judge(found: Iterable[Found], shipped: str, here: Mapping[str, str]) -> None:
    """Raises ServiceError for what keeps an executor from running tasks; `here`: the versions of
    libraries of this process, of which others are logged."""
    found = list(found)
    if faults := [f"{_at(f)}: {f['fault']}" for f in found if "fault" in f]:
        raise ServiceError(
            "the engine does not run in Spark's executors",
            detail=_joined(faults),
            hint="install it with its extra [spark] for that Python on each machine, or name"
            " another one: --spark-conf spark.pyspark.python=PATH",
        )
    if others := [f"{_at(f)} imports {f['engine']}" for f in found if shipped not in f["engine"]]:
        raise ServiceError(
            "Spark's executors run another version of the engine",
            detail=_joined(others),
            hint="leave it out of what their Python imports at its start",
        )
    if unseen := [f"{f['host']}: {f['unseen']}" for f in found if "unseen" in f]:
        raise _unseen(Path(found[0]["wrote"]).parent, unseen)
    for library, known in here.items():
        if differ := [f"{_at(f)} has {f[library]}" for f in found if f[library] != known]:
            log.warning("%s is %s here, but %s", library, known, _joined(differ))


def _at(found: Found) -> str:
    return f"{found['python']} on {found['host']}"


def _unseen(folder: Path, reasons: Iterable[str]) -> ServiceError:
    return ServiceError(
        f"Spark's executors do not see the folder {folder}",
        detail=_joined(reasons),
        hint="--data has to be in a folder that all machines have, at the same path, and that the"
        " user of the executors may write",
    )


def _joined(reasons: Iterable[str]) -> str:
    return "; ".join(sorted(set(reasons)))


def _looking(mark: str, libraries: tuple[str, ...]) -> Callable[[int], Found]:
    def look(number: int) -> Found:
        # Travels as code, and needs nothing but Python: the engine may be missing there.
        import socket
        import sys
        from importlib.metadata import version

        wrote = f"{mark}-{number}"
        found = {"host": socket.gethostname(), "python": sys.executable, "wrote": wrote}
        try:
            import sqlengine.executors.spark.stage as engine

            found["engine"] = str(engine.__file__)
            found |= {library: version(library) for library in libraries}
        except Exception as error:  # noqa: BLE001  told to people
            found["fault"] = f"{type(error).__name__}: {error}"
        try:
            with open(mark, "rb"), open(wrote, "wb"):
                pass
        except OSError as error:
            found["unseen"] = str(error)
        return found

    return look
