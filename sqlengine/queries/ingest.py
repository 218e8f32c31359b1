"""Rows that a client has in memory, into a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from parser import parse
from parser.statements import CreateTable
from parser.writer.names import backticked
from planner import bind
from planner.catalog import Catalog, Table
from sqlengine.batch import Batch
from sqlengine.connectors.memory.tables import Memory, MemoryTable
from sqlengine.connectors.registry import declared
from sqlengine.engine import Engine
from sqlengine.queries.ad_hoc import AdHocSession
from sqlengine.queries.client_session import ClientSession
from sqlengine.queries.execution import Slot
from sqlengine.queries.query import Query
from sqlengine.queries.writing import WritingExecution
from sqlengine.session.runner import EmbeddedRunner

# The table that stands for the rows.
ROWS: Final = "rows of the client"


# Rows that are read at once.
_AT_ONCE: Final = 16_384


def insert_text(table: Sequence[str], columns: Sequence[str]) -> str:
    """Returns the INSERT of the client's rows into a table."""
    names = ", ".join(map(backticked, columns))
    target = ".".join(map(backticked, table))
    return f"INSERT INTO {target} ({names}) SELECT {names} FROM {backticked(ROWS)}"


class IngestExecution(WritingExecution):
    """Runs the INSERT of rows that are given."""

    def __init__(
        self,
        engine: Engine,
        query: Query,
        state: ClientSession,
        slot: Slot,
        *,
        rows: Batch,
        follow: bool = False,
    ) -> None:
        super().__init__(engine, query, state, slot, follow=follow)
        self._rows = rows

    def _ad_hoc(self, query: Query, state: ClientSession, shared: Catalog) -> AdHocSession:
        session = super()._ad_hoc(query, state, shared)
        runner = session.runner
        assert isinstance(runner, EmbeddedRunner)
        memory = Memory({ROWS: MemoryTable(self._rows)})
        # Rows that come along are no load on tables: of the others so many may be read a second.
        session.runner = replace(
            runner,
            environment=replace(runner.environment, memory=memory),
            rows_per_read=_AT_ONCE,
            proceed=lambda rows: query.proceed(max(0, rows - self._rows.num_rows), complete=False),
        )
        session.catalog = session.catalog.put(self._table(session.catalog))
        return session

    def _table(self, catalog: Catalog) -> Table:
        columns = ", ".join(f"{backticked(c.name)} {c.type}" for c in self._rows.schema)
        options = f"'connector' = 'memory', 'name' = '{ROWS}'"
        text = f"CREATE TEMPORARY TABLE {backticked(ROWS)} ({columns}) WITH ({options})"
        (statement,) = parse(text)
        assert isinstance(statement, CreateTable)
        table = bind(statement, catalog, {}, job="")
        assert isinstance(table, Table)
        return declared(table)
