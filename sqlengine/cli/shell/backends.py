"""The two places where statements of the shell run: this process, as for `sql run`, or a server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Protocol

import click

from parser.errors import SqlError
from sqlengine.cli.query import fetch, print_result
from sqlengine.cli.shell.completion import Names
from sqlengine.client import Client, Json, Refused, quote
from sqlengine.session.printers import RowPrinter

SESSIONS = "/api/v1/sessions"


class Backend(Protocol):
    """Runs statements, and knows the names that they can use. `title`: where it is, for people."""

    title: str

    def execute(self, text: str, printer: RowPrinter, *, follow: bool) -> None:
        """Runs a statement and prints its rows as they come. Raises its SqlError;
        KeyboardInterrupt ends it."""

    def names(self) -> Names:
        """Returns the names for completion; none where they cannot be had."""

    def close(self) -> None: ...


class ServerBackend:
    """A session on a server. One that the server has forgotten is opened anew, without its
    temporary objects."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.title = client.server
        self._session = self._open()

    def _open(self) -> str:
        return str(self._client.post(SESSIONS)["session"])

    def execute(self, text: str, printer: RowPrinter, *, follow: bool) -> None:
        """See `Backend`. With `follow` a query goes on with rows that come later."""
        try:
            self._execute(text, printer, follow)
        except Refused as error:
            if error.status != 404 or "session" not in error.message:
                raise
            self._session = self._open()
            click.echo("a new session: temporary tables and settings are gone", err=True)
            self._execute(text, printer, follow)

    def _execute(self, text: str, printer: RowPrinter, follow: bool) -> None:
        query: Json = {"session": self._session, "follow": "true" if follow else None}
        with closing(fetch(self._client, text, query)) as pages:
            print_result(pages, printer)

    def names(self) -> Names:
        """See `Backend`."""
        try:
            body = self._client.get("/api/v1/catalog", session=self._session)
        except SqlError:
            return Names()
        tables = body["tables"]
        assert isinstance(tables, list)
        return Names(
            {str(t["name"]): [str(c) for c in t["columns"]] for t in tables},
            _texts(body["functions"]),
            _texts(body["jobs"]),
        )

    def close(self) -> None:
        """Closes the session."""
        try:
            self._client.delete(f"{SESSIONS}/{quote(self._session)}")
        except SqlError as error:
            click.echo(str(error), err=True)


def _texts(value: object) -> Sequence[str]:
    return [str(v) for v in value] if isinstance(value, list) else []


@contextmanager
def server_backend(client: Client) -> Iterator[Backend]:
    """Opens a session on a server while the shell runs."""
    with closing(ServerBackend(client)) as backend:
        yield backend


@contextmanager
def local_backend(folder: Path) -> Iterator[Backend]:
    """Opens an engine in this process, with the topics of a folder."""
    from sqlengine.system.memory import importing

    with importing():
        from planner.catalog import Catalog
        from sqlengine.cli.shell.local import LocalBackend, LocalSession, PrinterOutput
        from sqlengine.jobs.planning import with_entry_points
        from sqlengine.session.environment import open_runner, script_library

    with ExitStack() as stack:
        runner = stack.enter_context(open_runner(folder))
        library = stack.enter_context(script_library(folder, None))
        catalog = with_entry_points(Catalog(), library)
        yield LocalBackend(LocalSession(runner, PrinterOutput(), catalog, library=library))
