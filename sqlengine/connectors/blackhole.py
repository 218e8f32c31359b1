"""The connector 'blackhole': a sink that takes all rows and keeps none, for tests of speed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from parser.errors import UnsupportedError
from parser.types import DataType
from planner.catalog import Table
from sqlengine.batch import Batch, RowKind
from sqlengine.connectors.base import Environment, Option, Sink, Source
from sqlengine.connectors.registry import connector


@connector("blackhole")
class BlackholeConnector:
    name: ClassVar[str] = "blackhole"
    options: ClassVar[Mapping[str, Option]] = {}
    metadata: ClassVar[Mapping[str, DataType]] = {}
    needs_format: ClassVar[bool] = False
    accepts_updates: ClassVar[bool] = True
    keeps_rows: ClassVar[bool] = False

    def brings(self, table: Table) -> frozenset[RowKind]:
        return frozenset({RowKind.INSERT})

    def takes(self, table: Table) -> frozenset[RowKind]:
        """It needs no -U."""
        return frozenset(RowKind) - {RowKind.UPDATE_BEFORE}

    def source(self, table: Table, environment: Environment) -> Source:
        raise UnsupportedError(f"table '{table.display}' with connector 'blackhole' cannot be read")

    def sink(self, table: Table, environment: Environment) -> Sink:
        return BlackholeSink()


class BlackholeSink:
    guarantee: ClassVar[str] = "exactly-once"

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
