"""Connections to a MariaDB server whose changes are followed, and places in its log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import NamedTuple, cast

from parser.errors import ServiceError
from sqlengine.connectors.changes.options import Account
from sqlengine.connectors.jdbc.dialect import words
from sqlengine.connectors.jdbc.driver import SILENCE_S, Connection
from sqlengine.connectors.jdbc.mysql import driver
from sqlengine.connectors.receivers.base import Unreachable


class Gtid(NamedTuple):
    """The last transaction of a place in the log: its number, and who wrote it. MariaDB writes it
    as domain-server-number; nothing was written where the number is 0."""

    number: int
    origin: int = 0

    @classmethod
    def parsed(cls, text: str) -> Gtid:
        """Raises ServiceError for a log of several domains: their transactions have no order."""
        if not text:
            return cls(0)
        if "," in text:
            raise ServiceError(
                f"the server writes its log in several domains ({text}): only one has an order"
            )
        domain, server, number = map(int, text.split("-"))
        return cls(number, domain << 32 | server)

    @property
    def text(self) -> str:
        return f"{self.domain}-{self.origin & 0xFFFF_FFFF}-{self.number}"

    @property
    def domain(self) -> int:
        return self.origin >> 32

    def __str__(self) -> str:
        """Returns the number as the server is asked to go on behind it."""
        return self.text if self.number else ""


def require_order(before: Gtid, after: Gtid) -> None:
    """Raises ServiceError for two transactions, one read behind the other, whose numbers do not
    say so: which changes were taken could not be told by them."""
    if before.number and before.domain != after.domain:
        raise ServiceError(
            f"the server writes its log in several domains ({before.text}, then {after.text}):"
            " only one has an order",
            hint="write with one gtid_domain_id; then give another 'server-id', and begin anew",
        )
    if after.number <= before.number:
        raise ServiceError(
            f"transaction {after.text} comes behind {before.text} in the log of the server",
            hint="SET GLOBAL gtid_strict_mode = ON there; then give another 'server-id', and begin"
            " anew",
        )


@dataclass(frozen=True)
class Place:
    """The place of a server, reached by an account."""

    account: Account

    @property
    def settings(self) -> dict[str, object]:
        """The arguments of a driver."""
        return {
            "host": self.account.host,
            "port": self.account.port,
            "user": self.account.username,
            "password": self.account.password or "",
            "charset": "utf8mb4",
            "connect_timeout": self.account.timeout_s,
            # A connection whose other end is gone would be waited for without end.
            "read_timeout": SILENCE_S,
            "write_timeout": SILENCE_S,
            "init_command": "SET time_zone = '+00:00'",
        }

    def connect(self, **more: object) -> Connection:
        """Connects. Unreachable where that fails."""
        with unreachable():
            return cast("Callable[..., Connection]", driver().connect)(**self.settings, **more)


@contextmanager
def unreachable() -> Iterator[None]:
    """Makes Unreachable of what the driver raises."""
    try:
        yield
    except (driver().Error, OSError) as error:
        raise Unreachable(words(error)) from None


def quoted(*names: str) -> str:
    """Returns a name for a statement."""
    return ".".join("`" + name.replace("`", "``") + "`" for name in names)


def replication() -> ModuleType:
    """Returns the module that reads the log. ServiceError where it is not installed."""
    try:
        import_module("pymysql")
        return import_module("pymysqlreplication")
    except ModuleNotFoundError:
        raise ServiceError(
            "changes of MariaDB need a package that is not installed",
            hint="pip install 'sqlengine[mysql-cdc]'",
        ) from None
