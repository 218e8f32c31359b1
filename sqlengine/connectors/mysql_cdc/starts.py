"""Places in the log of MariaDB where tables begin: options, and what these stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from parser.errors import OptionError, ServiceError
from planner.catalog import Table
from sqlengine.connectors.changes.followed import Followed
from sqlengine.connectors.jdbc.driver import Cursor
from sqlengine.connectors.mysql_cdc.database import Gtid, unreachable
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, choice

_MODE: Final = "scan.startup.mode"
_OFFSET: Final = "scan.startup.specific-offset."
_GTID, _FILE, _POS = _OFFSET + "gtid-set", _OFFSET + "file", _OFFSET + "pos"
_MILLIS: Final = "scan.startup.timestamp-millis"
_PLACES: Final[Mapping[str, str]] = {
    _GTID: "specific-offset",
    _FILE: "specific-offset",
    _POS: "specific-offset",
    _MILLIS: "timestamp",
}
# Events of a log that are between two transactions.
_BETWEEN: Final = ("Gtid", "Rotate", "Stop", "Binlog_checkpoint", "Format_desc", "Gtid_list")
_HEAD: Final = 4  # bytes at the beginning of a file, before its first event


def _gtid(text: str) -> str:
    """Returns the text of a GTID. ValueError for another one."""
    if not re.fullmatch(r"[0-9]{1,10}-[0-9]{1,10}-[0-9]{1,19}", text.strip()):
        raise ValueError("expected a GTID of MariaDB as '0-1-42': domain, server, number")
    return text.strip()


START_OPTIONS: Final[Mapping[str, Option]] = {
    _MODE: Option(
        choice("initial", "earliest-offset", "latest-offset", "specific-offset", "timestamp"),
        default="initial",
        doc="a snapshot and then changes, or changes alone: of all the log that the server has,"
        " from now on, or from a place of the log on",
    ),
    _GTID: Option(
        _gtid, doc="of the mode 'specific-offset': the last transaction that is not read, '0-1-42'"
    ),
    _FILE: Option(doc="of the mode 'specific-offset', without a GTID: a file of the log"),
    _POS: Option(at_least(_HEAD), doc="where a transaction begins in that file, or the file ends"),
    _MILLIS: Option(
        at_least(0),
        doc="of the mode 'timestamp': ms since 1970; what is of this second is read, too",
    ),
}


def start_of(table: Table, options: Mapping[str, object]) -> dict[str, str]:
    """Returns what options say of the place where the changes of a table begin. PlanError where
    they do not fit the mode."""
    mode = str(options[_MODE])
    for option, of in _PLACES.items():
        if option in table.options and of != mode:
            raise OptionError(
                f"option '{option}' of table '{table.display}' needs '{_MODE}' = '{of}'",
                detail=f"'{_MODE}' is '{mode}'",
                subject=option,
            )
    start = {o: str(options[o]) for o in _PLACES if options[o] is not None}
    wanted = {"timestamp": [{_MILLIS}], "specific-offset": [{_GTID}, {_FILE, _POS}]}
    if mode in wanted and start.keys() not in wanted[mode]:
        either = " or ".join(" and ".join(f"'{o}'" for o in sorted(w)) for w in wanted[mode])
        raise OptionError(
            f"table '{table.display}' needs the option {either}",
            detail=f"'{_MODE}' is '{mode}'",
            subject=_MODE,
        )
    return start


def since(table: Followed) -> int:
    """Returns the first second (since 1970) whose transactions are read; 0 for all."""
    return int(table.start.get(_MILLIS, 0)) // 1000


def place_of(table: Followed, now: Gtid, cursor: Cursor) -> Gtid:
    """Returns the place behind which the changes of a table begin; `now`: the end of the log.
    ServiceError where it is within a transaction, Unreachable where the server has no such file."""
    if _GTID in table.start:
        return Gtid.parsed(table.start[_GTID])
    with unreachable():
        if _FILE in table.start:
            return _at(cursor, table.start[_FILE], int(table.start[_POS]))
        if table.startup in ("initial", "latest-offset"):
            return now
        cursor.execute("SHOW BINARY LOGS")
        first = cursor.fetchone()
        return now if first is None else _at(cursor, str(first[0]), _HEAD)


def _at(cursor: Cursor, file: str, at: int) -> Gtid:
    cursor.execute("SHOW BINLOG EVENTS IN %s FROM %s LIMIT 1", (file, at))
    event = cursor.fetchone()
    if event is not None and str(event[2]) not in _BETWEEN:
        raise ServiceError(
            f"position {at} of '{file}' is within a transaction of the log",
            hint=f"'{_POS}' is where a transaction begins: SHOW BINLOG EVENTS IN '{file}' has these"
            " as events of the type Gtid",
        )
    return gtid_at(cursor, file, at)


def gtid_at(cursor: Cursor, file: str, at: int) -> Gtid:
    """Returns the last transaction before a position of a file of the log."""
    cursor.execute("SELECT BINLOG_GTID_POS(%s, %s)", (file, at))
    found = cursor.fetchone()
    return Gtid.parsed("" if found is None or found[0] is None else str(found[0]))
