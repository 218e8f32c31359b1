"""The environment of a script: a broker of its own and the embedded executor, or Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

from sqlengine.broker.base import Broker
from sqlengine.broker.embedded import system_clock
from sqlengine.config import FUNCTIONS, LOCAL, Cluster, data_folder
from sqlengine.connectors.boundary.openings import Openings
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.receivers.service import Receivers
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.dimensions.asking import TableAsker
from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
from sqlengine.functions.library import Library
from sqlengine.functions.pool import POOL
from sqlengine.session import ROWS_PER_READ
from sqlengine.session.given import Given
from sqlengine.session.runner import IDLE_S, EmbeddedRunner
from sqlengine.system.file_access import ANY_FILES, FileAccess
from sqlengine.system.memory import keep_for_reuse


@contextmanager
def open_runner(
    data: Path,
    rows_per_read: int = ROWS_PER_READ,
    where: str = "embedded",
    set_aside: RowsSetAside | None = None,
    files: FileAccess = ANY_FILES,
    cluster: Cluster = LOCAL,
    given: Given | None = None,
    *,
    verbose: bool = False,
) -> Iterator[EmbeddedRunner]:
    """Opens the folder `data`, which has the topics, while a script runs, on 'embedded' or 'spark'
    (`where`), that of `cluster`. `set_aside` counts the rows in error that do not end it; `files`:
    which files it may use; `verbose`: Spark prints to standard error, not to a file in `data`."""
    keep_for_reuse()
    given = given or Given()
    if where == "spark":
        from sqlengine.session.spark import spark_runner

        printed = None if verbose else data / "spark.log"
        with spark_runner(data, rows_per_read, set_aside, files, printed, cluster, given) as runner:
            yield runner
        return
    with given.opened(data) as broker:
        yield from _embedded(data, rows_per_read, set_aside, files, given, broker)


def _embedded(
    data: Path,
    rows_per_read: int,
    set_aside: RowsSetAside | None,
    files: FileAccess,
    given: Given,
    broker: Broker,
) -> Iterator[EmbeddedRunner]:
    """Yields a runner in this process, and ends what it has opened."""
    name = f"script-{time.time_ns()}"
    dimensions = data.resolve() / "dimensions" / name
    receivers = Receivers(broker, system_clock, lasting=False)
    try:
        environment = Environment(
            broker,
            given.clock,
            name,
            memory=given.memory,
            openings=Openings(command="sql run"),
            files=files,
            dimensions=dimensions,
            receivers=receivers,
        )
        yield EmbeddedRunner(
            environment,
            OperatorFactory(
                dimensions=dimensions, asker=lambda scan: TableAsker(scan, environment)
            ),
            rows_per_read,
            lambda: broker.wait_for_data(IDLE_S),
            dead_letters=set_aside,
        )
    finally:
        receivers.stop()
        rmtree(dimensions, ignore_errors=True)


@contextmanager
def script_library(data: Path, *files: str | None) -> Iterator[Library]:
    """The library of scripts' functions: modules beside them, in the working directory, in folders
    `functions` there and in that of the data folder, and installed ones. Their workers end with the
    scripts."""
    beside = dict.fromkeys(Path(file).resolve().parent for file in files if file)
    places = [f for folder in (*beside, Path.cwd()) for f in (folder, folder / FUNCTIONS)]
    places.append(data_folder(None).absolute() / FUNCTIONS)
    folders = tuple(dict.fromkeys(folder for folder in places if folder.is_dir()))
    yield Library(data / "modules", folders, anywhere=True)
    POOL.stop()
