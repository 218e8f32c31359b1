"""Statements of the shell in this process, as `sql run` runs those of a script."""

from __future__ import annotations

from dataclasses import dataclass, field

import click

from parser import parse
from parser.errors import SqlError, UnsupportedError
from parser.statements import Query, Show, StopJob
from parser.types import Schema
from planner.catalog import Function, Table, View
from sqlengine.batch import Batch
from sqlengine.cli.shell.completion import Names
from sqlengine.formats.results import rows_of
from sqlengine.session.printers import RowPrinter, TableRows
from sqlengine.session.session import Session
from udf.reference import function_names


@dataclass
class PrinterOutput:
    """Prints the rows of a session's statements with `printer`."""

    printer: RowPrinter = field(default_factory=TableRows)
    began: bool = False

    def begin(self, schema: Schema, *, changes: bool) -> None:
        """Begins the result of a statement."""
        self.printer.begin([(c.name, str(c.type)) for c in schema], changes=changes)
        self.began = True

    def schema(self, stmt: int, schema: Schema) -> None:
        self.begin(schema, changes=False)

    def rows(self, stmt: int, batch: Batch) -> None:
        self.printer.rows(list(rows_of(batch)))

    def done(self, stmt: int, message: str) -> None:
        click.echo(message, err=True)

    def error(self, stmt: int, error: SqlError) -> None:
        raise error

    def end(self) -> None:
        """Ends the result, if there is one."""
        if self.began:
            self.printer.end()
        self.began = False


@dataclass
class LocalSession(Session):
    """A session whose rows a shell prints as they come."""

    def _query(self, number: int, statement: Query) -> None:
        sinks = self._plan(statement).sinks
        assert isinstance(self.output, PrinterOutput)
        self.output.begin(sinks[0].schema, changes=bool(sinks[0].input.changes))
        self.runner.run(sinks, self.settings, lambda batch: self.output.rows(number, batch))


class LocalBackend:
    """Runs statements in a session of this process. See `Backend`."""

    title = "this process"

    def __init__(self, session: LocalSession) -> None:
        self._session = session

    def execute(self, text: str, printer: RowPrinter, *, follow: bool) -> None:
        """See `Backend`. The tables' options say where reading ends, whatever `follow` is."""
        output = self._session.output = PrinterOutput(printer)
        for statement in parse(text):
            if isinstance(statement, StopJob) or (
                isinstance(statement, Show) and statement.what == "JOBS"
            ):
                raise UnsupportedError(
                    "there are no jobs in this process",
                    hint="a server has: sql shell --server HOST:PORT",
                    position=statement.position,
                )
            try:
                self._session.execute(0, statement)
            except SqlError as error:
                raise error.at(statement.position) from None
            finally:
                output.end()

    def names(self) -> Names:
        """See `Backend`."""
        catalog = self._session.catalog
        tables: dict[str, list[str]] = {}
        for kind in (Table, View):
            for name in catalog.names(kind):
                relation = catalog.get((name,))
                schema = relation.plan.schema if isinstance(relation, View) else None
                schema = relation.schema if isinstance(relation, Table) else schema
                tables[name] = list(schema.names) if schema else []
        return Names(tables, sorted({*function_names(), *catalog.names(Function)}, key=str.lower))

    def close(self) -> None: ...
