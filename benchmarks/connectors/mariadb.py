"""Changes of MariaDB, by `mysql-cdc` and by the bare client: rows per CPU second of this process, on
the same server in the same run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from benchmarks.page import Section
from benchmarks.page import Table as Figures
from sqlengine.connectors.changes.followed import Followed
from sqlengine.connectors.changes.options import Account
from sqlengine.connectors.mysql_cdc.binlog import open_reader
from sqlengine.connectors.mysql_cdc.database import Place
from sqlengine.connectors.mysql_cdc.receiver import MariaDbReceiver
from sqlengine.connectors.receivers.base import Stream, Taken
from tests.servers.mariadb import MariaDbServer

ROWS: Final = 50_000
_TABLE: Final = "CREATE TABLE t (id BIGINT PRIMARY KEY, name VARCHAR(40), v DOUBLE, ts DATETIME(3))"
_FILL: Final = (
    "INSERT INTO t SELECT seq, CONCAT('name ', seq), seq / 7, '2024-01-01'"
    f" FROM (WITH RECURSIVE s (seq) AS (SELECT 1 UNION ALL SELECT seq + 1 FROM s WHERE seq < {ROWS})"
    " SELECT seq FROM s) AS numbers"
)

_WHAT: Final = {
    "schema": "app", "table": "t", "columns": '["id", "name", "v", "ts"]', "key": '["id"]',
    "binary": "[]", "changelog": "all", "startup": "initial",
}  # fmt: skip
_STREAM: Final = Stream("bench", _WHAT, 1 << 30, 0, 0, 0)


def run() -> Section:
    """Measures."""
    with tempfile.TemporaryDirectory() as folder, MariaDbServer(Path(folder) / "s") as server:
        rows = _measured(server)
    return Section(
        "connectors_mariadb",
        "Changes of MariaDB",
        f"{ROWS:,} rows of 4 columns of MariaDB on the same machine: a snapshot, and an update of"
        " each row. Bare client: fetchall, and the reader of the binary log that the connector"
        " uses, whose events are only read.",
        [
            Figures(
                "rows per CPU second of the client",
                ("", "mysql-cdc", "bare client"),
                [[what, f"{rate:,}", f"{bare:,}"] for what, rate, bare in rows],
            )
        ],
    )


def _measured(server: MariaDbServer) -> list[tuple[str, int, int]]:
    place = Place(Account("127.0.0.1", server.port, "root", None, 10))
    with closing(place.connect(database="app", autocommit=True)) as bare:
        cursor = bare.cursor()
        cursor.execute(_TABLE)
        cursor.execute(f"SET max_recursive_iterations = {ROWS + 1}")
        cursor.execute(_FILL)
        cursor.execute("SELECT @@gtid_current_pos")
        ((at,),) = cursor.fetchall()
        receiver = _receiver(place)
        snapshot = _rate(lambda: _take(receiver, ROWS))
        fetched = _rate(lambda: (cursor.execute("SELECT * FROM t ORDER BY id"), cursor.fetchall()))
        _take(receiver, 0)
        cursor.execute("UPDATE t SET v = v + 1")
        changes = _rate(lambda: _take(receiver, 2 * ROWS))
        receiver.close()
    read = _rate(lambda: _read(place, str(at)))
    return [("snapshot", snapshot, fetched), ("changes (update)", changes, read)]


def _receiver(place: Place) -> MariaDbReceiver:
    """Returns a receiver of the table `t` that begins with a snapshot."""
    receiver = MariaDbReceiver(place, 7, skips=False)
    receiver.connect([_STREAM], [], lambda topic, count: Taken())
    return receiver


def _take(receiver: MariaDbReceiver, wanted: int) -> None:
    """Takes what the log of the table would take: `wanted` rows at least, if 0 once."""
    while True:
        wanted -= sum(len(taken.values) for taken in receiver.take(1).values())
        receiver.acknowledge()
        if wanted <= 0:
            return


def _read(place: Place, at: str) -> None:
    """Reads the events of the updates behind a transaction, as dicts."""
    reader = open_reader(place, 8, at, [Followed.of(_STREAM)])
    count = 0
    while count < ROWS:
        event = reader.fetchone()
        if type(event).__name__ == "UpdateRowsEvent":
            count += len(event.rows)
    reader.close()


def _rate(work: Callable[[], object]) -> int:
    started = time.process_time()
    work()
    return round(ROWS / (time.process_time() - started))
