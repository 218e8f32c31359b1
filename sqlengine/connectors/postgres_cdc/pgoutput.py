"""The messages of PostgreSQL's plugin 'pgoutput' (protocol version 1): transactions with the rows
that they changed, as texts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

from sqlengine.connectors.changes.change import UNCHANGED, Change, Values

_BEGIN: Final = Struct("!QqI")
_COMMIT: Final = Struct("!BQQq")
_RELATION: Final = Struct("!I")
_COLUMN: Final = Struct("!Ii")
_SHORT: Final = Struct("!H")
_LENGTH: Final = Struct("!I")
_NEW, _KEY, _UPDATE, _TEXT, _NULL = b"NKUtn"
# Microseconds from 1970 to 2000, where PostgreSQL begins to count.
_EPOCH_US: Final = 946_684_800_000_000


@dataclass(frozen=True)
class Begin:
    """A transaction begins, whose commit is at `lsn`; `time_ms`: when it was."""

    lsn: int
    time_ms: int


@dataclass(frozen=True)
class Commit:
    """A transaction ends; the log goes on at `end`."""

    end: int


@dataclass(frozen=True)
class Relation:
    """A table as it is for the changes that follow."""

    id: int
    schema: str
    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Truncate:
    """Tables have lost all rows."""

    relations: tuple[int, ...]


Message: TypeAlias = Begin | Commit | Relation | Change | Truncate | None


def parse(data: bytes) -> Message:
    """Returns a message; None for one of which nothing is wanted."""
    match data[:1]:
        case b"I" | b"U" | b"D":
            return _change(data)
        case b"B":
            lsn, time_us, _ = _BEGIN.unpack_from(data, 1)
            return Begin(lsn, (time_us + _EPOCH_US) // 1000)
        case b"C":
            _, _, end, _ = _COMMIT.unpack_from(data, 1)
            return Commit(end)
        case b"R":
            return _relation(data)
        case b"T":
            (count,) = _LENGTH.unpack_from(data, 1)
            ids = (_RELATION.unpack_from(data, 6 + 4 * i)[0] for i in range(count))
            return Truncate(tuple(ids))
        case _:
            return None


def _change(data: bytes) -> Change:
    (relation,) = _RELATION.unpack_from(data, 1)
    at, old, new, key_only = 5, None, None, False
    while at < len(data):
        kind = data[at]
        values, at = _values(data, at + 1)
        if kind == _NEW:
            new = values
        else:
            old, key_only = values, kind == _KEY
    return Change(relation, old, new, data[0] == _UPDATE, key_only)


def _values(data: bytes, at: int) -> tuple[Values, int]:
    """Returns the values of a row, and where it ends."""
    (count,) = _SHORT.unpack_from(data, at)
    at += 2
    length_at = _LENGTH.unpack_from
    found: Values = []
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            end = at + 5 + length_at(data, at + 1)[0]
            found.append(data[at + 5 : end])
            at = end
        else:
            found.append(None if kind == _NULL else UNCHANGED)
            at += 1
    return found, at


def _relation(data: bytes) -> Relation:
    (number,) = _RELATION.unpack_from(data, 1)
    rest = data[5:]
    schema, _, rest = rest.partition(b"\0")
    name, _, rest = rest.partition(b"\0")
    columns = _columns(rest[1:])  # behind the replica identity
    return Relation(number, schema.decode() or "pg_catalog", name.decode(), tuple(columns))


def _columns(data: bytes) -> Iterator[str]:
    (count,) = _SHORT.unpack_from(data)
    at = 2
    for _ in range(count):
        end = data.index(b"\0", at + 1)
        yield data[at + 1 : end].decode()
        at = end + 1 + _COLUMN.size
