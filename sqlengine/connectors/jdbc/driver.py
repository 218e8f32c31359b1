"""The part of the drivers of databases that is used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

Value = str | int | float | Decimal | bytes | None
CONNECT_S = 5  # how long to wait for a connection
SILENCE_S = 600  # how long a statement may take before its connection is taken for lost


class Cursor(Protocol):
    """The part of a DB-API cursor that is used."""

    @property
    def rowcount(self) -> int: ...
    @property
    def description(self) -> Sequence[Sequence[object]] | None: ...
    def execute(self, text: str, values: Sequence[Value] = ..., /) -> object: ...
    def executemany(self, text: str, rows: Iterable[Sequence[Value]], /) -> object: ...
    def fetchone(self) -> Sequence[object] | None: ...
    def fetchmany(self, size: int, /) -> Sequence[Sequence[object]]: ...
    def fetchall(self) -> Sequence[Sequence[object]]: ...


class Connection(Protocol):
    """The part of a DB-API connection that is used. It begins a transaction with its first
    statement, or as the dialect's `begin` says."""

    def cursor(self) -> Cursor: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Account:
    """The user of a connection; None where the database asks for none."""

    username: str | None
    password: str | None
