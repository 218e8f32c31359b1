"""Connections of PEP 249."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from parser.writer.names import quoted
from parser.writer.parameters import STYLES, ParamStyle
from sqlengine.connection.base import Connection as Engine
from sqlengine.connection.connecting import connect as connect_engine
from sqlengine.dbapi import errors
from sqlengine.dbapi.cursor import Cursor


def connect(
    url: str | None = None,
    *,
    token: str | None = None,
    data: str | Path | None = None,
    ca_file: str | None = None,
    client_cert: str | None = None,
    client_key: str | None = None,
    paramstyle: ParamStyle = "qmark",
    settings: Mapping[str, str] | None = None,
) -> Connection:
    """Connects as `sqlengine.connect` does: to the server at `url`, or to an engine in this
    process.

    `paramstyle`: the marks of parameters, `?`, `:name`, `:1`, `%s` or `%(name)s`; `settings`: those
    that the session begins with."""
    with errors.translating():
        engine = connect_engine(
            url,
            token=token,
            data=data,
            ca_file=ca_file,
            client_cert=client_cert,
            client_key=client_key,
        )
    return Connection(engine, paramstyle, settings or {})


class Connection:
    """A connection of PEP 249 over one of the engine's, which it closes. Any thread.

    A context manager: leaving it closes it. There are no transactions: each statement counts at
    once."""

    Warning = errors.Warning
    Error = errors.Error
    InterfaceError = errors.InterfaceError
    DatabaseError = errors.DatabaseError
    DataError = errors.DataError
    OperationalError = errors.OperationalError
    IntegrityError = errors.IntegrityError
    InternalError = errors.InternalError
    ProgrammingError = errors.ProgrammingError
    NotSupportedError = errors.NotSupportedError

    def __init__(self, engine: Engine, paramstyle: ParamStyle, settings: Mapping[str, str]) -> None:
        if paramstyle not in STYLES:
            raise errors.InterfaceError(f"'{paramstyle}' is no paramstyle: {', '.join(STYLES)} are")
        self._engine: Engine | None = engine
        self._paramstyle = paramstyle
        try:
            with errors.translating():
                for key, value in settings.items():
                    engine.sql(f"SET {quoted(key)} = {quoted(value)}")
        except errors.Error:
            engine.close()
            raise

    @property
    def engine(self) -> Engine:
        """The connection below, with jobs and topics. InterfaceError once it is closed."""
        if self._engine is None:
            raise errors.InterfaceError("the connection is closed")
        return self._engine

    @property
    def paramstyle(self) -> ParamStyle:
        """The style of the marks of parameters."""
        return self._paramstyle

    @property
    def closed(self) -> bool:
        """True once it is closed."""
        return self._engine is None

    def cursor(self, *, follow: bool = False) -> Cursor:
        """Returns a new cursor. With `follow` its queries go on with rows that come later, until it
        is closed."""
        self.engine  # noqa: B018
        return Cursor(self, follow=follow)

    def commit(self) -> None:
        """Does nothing: all is done when a statement returns."""
        self.engine  # noqa: B018

    def rollback(self) -> None:
        """Raises NotSupportedError: there are no transactions."""
        raise errors.NotSupportedError("there are no transactions: each statement counts at once")

    def close(self) -> None:
        """Closes the connection, its session and its cursors. May be called twice."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
