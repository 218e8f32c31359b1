"""The connector 'blackhole': a sink that takes all rows and keeps none, for tests of speed."""

from __future__ import annotations

from typing import ClassVar

from planner.capabilities import Capabilities, SinkCapabilities
from planner.catalog import Table
from planner.logical.change_kinds import UPSERT
from sqlengine.batch import Batch
from sqlengine.connectors.base import Connector, Sink
from sqlengine.connectors.environment import Environment


class BlackholeConnector(Connector):
    """Opens sinks that count rows. They accept +U without -U."""

    name: ClassVar[str] = "blackhole"
    capabilities: ClassVar[Capabilities] = Capabilities(
        sink=SinkCapabilities(changelog=UPSERT, condition="no row is kept", parallel=True),
        blocks=False,
    )

    def sink(self, table: Table, environment: Environment) -> Sink:
        return BlackholeSink()


class BlackholeSink(Sink):
    """Counts rows and drops them."""

    def __init__(self) -> None:
        self._rows = 0

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        self._rows += batch.num_rows

    def commit(self, epoch: int) -> int:
        rows, self._rows = self._rows, 0
        return rows

    def close(self) -> None: ...
