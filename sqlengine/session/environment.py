"""The environment of a script: a broker of its own and the embedded executor, or Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree

from sqlengine.broker.embedded import EmbeddedBroker, system_clock
from sqlengine.config import LOCAL, Cluster
from sqlengine.connectors.boundary.openings import Openings
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.memory.tables import Memory
from sqlengine.connectors.receivers.service import Receivers
from sqlengine.executors.build import OperatorFactory
from sqlengine.executors.dimensions.asking import TableAsker
from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
from sqlengine.functions.library import Library
from sqlengine.functions.pool import POOL
from sqlengine.session import ROWS_PER_READ
from sqlengine.session.session import IDLE_S, EmbeddedRunner, Runner
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
    *,
    verbose: bool = False,
) -> Iterator[Runner]:
    """Opens the folder `data`, which has the topics, while a script runs, on 'embedded' or 'spark'
    (`where`), that of `cluster`. `set_aside` counts the rows in error that do not end it; `files`:
    which files it may use; `verbose`: Spark prints to standard error, not to a file in `data`."""
    keep_for_reuse()
    if where == "spark":
        from sqlengine.session.spark import spark_runner

        printed = None if verbose else data / "spark.log"
        with spark_runner(data, rows_per_read, set_aside, files, printed, cluster) as runner:
            yield runner
        return
    broker = EmbeddedBroker(data, fsync="none", clock=system_clock)
    name = f"script-{time.time_ns()}"
    dimensions = data.resolve() / "dimensions" / name
    receivers = Receivers(broker, system_clock, lasting=False)
    try:
        environment = Environment(
            broker,
            system_clock,
            name,
            memory=Memory(),
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
        broker.close()
        rmtree(dimensions, ignore_errors=True)


@contextmanager
def script_library(data: Path, file: str | None) -> Iterator[Library]:
    """The library of a script's functions: modules beside it, in the working directory, and
    installed ones. Their workers end with the script."""
    beside = (Path(file).resolve().parent,) if file else ()
    yield Library(data / "modules", tuple(dict.fromkeys((*beside, Path.cwd()))), anywhere=True)
    POOL.stop()
