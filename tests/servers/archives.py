"""The classes of servers in Java as Java has loaded them once: with this archive beside their jars they
start in half the time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.servers.kafka import JARS as KAFKA
from tests.servers.kafka import KafkaServer
from tests.servers.process import Missing, ServerProcess
from tests.servers.rocketmq import JARS as ROCKETMQ
from tests.servers.rocketmq import RocketServer
from tests.servers.setup import Jars


def record_missing() -> None:
    """Makes the archives that are not there, of servers whose jars are."""
    for jars, record in ((KAFKA, _record_kafka), (ROCKETMQ, _record_rocketmq)):
        try:
            jars.path()
        except Missing:
            continue
        if not jars.archive.exists():
            with TemporaryDirectory() as folder:
                record(Path(folder))


def _record_kafka(folder: Path) -> None:
    _record(KAFKA, KafkaServer(folder / "kafka"))


def _record_rocketmq(folder: Path) -> None:
    """A name server's classes are a part of a broker's."""
    server = RocketServer(folder)
    server.names.start()
    try:
        _record(ROCKETMQ, server.brokers[0])
    finally:
        server.kill()


def _record(jars: Jars, server: ServerProcess) -> None:
    """Java writes the archive when it ends; under its name it is always whole."""
    unfinished = jars.archive.with_suffix(f".{os.getpid()}")
    with _java_options(
        f"-XX:ArchiveClassesAtExit={unfinished} -Xlog:cds=off -Xlog:cds+dynamic=off"
    ):
        server.start().stop()
    unfinished.rename(jars.archive)


@contextmanager
def _java_options(options: str) -> Iterator[None]:
    """Java reads them from the environment, besides those of its command."""
    before = os.environ.get("JAVA_TOOL_OPTIONS")
    os.environ["JAVA_TOOL_OPTIONS"] = options
    try:
        yield
    finally:
        del os.environ["JAVA_TOOL_OPTIONS"]
        if before is not None:
            os.environ["JAVA_TOOL_OPTIONS"] = before
