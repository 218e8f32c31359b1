"""What a receiver takes of a MariaDB server's log, piece by piece, through lost connections."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import pytest

from parser.errors import ServiceError
from planner.logical.change_kinds import RowKind
from sqlengine.connectors.changes import refusals
from sqlengine.connectors.changes.options import Account
from sqlengine.connectors.changes.positions import COMPLETE, Mark
from sqlengine.connectors.mysql_cdc import binlog
from sqlengine.connectors.mysql_cdc.database import Gtid, Place, require_order
from sqlengine.connectors.mysql_cdc.receiver import MariaDbReceiver
from sqlengine.connectors.receivers.base import Stream, Taken, Unreachable
from tests.connectors.databases import Database
from tests.servers.mariadb import MariaDbServer
from tests.support import eventually

_TABLES = ("numbers", "others")
_LATEST = {"startup": "latest-offset"}


def stream(table: str, start: Mapping[str, str]) -> Stream:
    what = {"schema": "app", "table": table, "columns": '["id"]', "key": '["id"]'}
    return Stream("server", {**what, "changelog": "all", **start}, 1 << 30, 0, 0, 0)


@dataclass
class Follower:
    """A receiver with the logs that it fills, which outlive it."""

    database: Database
    account: Account
    logs: dict[str, Taken] = field(default_factory=dict)
    receiver: MariaDbReceiver | None = None
    skips: bool = False
    start: Mapping[str, str] = field(default_factory=lambda: _LATEST)

    def connect(self) -> None:
        """Connects with what the logs tell, as after a restart."""
        self.close()
        self.receiver = MariaDbReceiver(Place(self.account), 77, skips=self.skips)
        self.receiver.connect([stream(t, self.start) for t in _TABLES], [], self.tail)

    def tail(self, topic: str, count: int) -> Taken:
        found = self.logs.setdefault(topic, Taken())
        return Taken(found.values[-count:], found.metadata[-count:])

    def take(self) -> None:
        """Takes one piece."""
        assert self.receiver is not None
        for topic, taken in self.receiver.take(0.3).items():
            self.tail(topic, 0)
            self.logs[topic].values += taken.values
            self.logs[topic].metadata += taken.metadata

    def take_until(self, done: Callable[[], bool]) -> None:
        until = time.monotonic() + 10
        while not done():
            assert time.monotonic() < until, {t: len(self.rows(t)) for t in _TABLES}
            self.take()

    def take_with_restarts(self, done: Callable[[], bool]) -> None:
        """Connects anew whenever something was taken."""
        while not done():
            self.connect()
            self.take_until(partial(self._has_more_than, self._count()))

    def _count(self) -> int:
        return sum(len(self.ids(t)) for t in _TABLES)

    def _has_more_than(self, count: int) -> bool:
        return self._count() > count

    def rows(self, table: str) -> list[tuple[RowKind, int]]:
        """The changes in the log of a table."""
        found = self.tail(stream(table, self.start).topic, 1 << 30)
        marks = [Mark.decoded(m) for m in found.metadata]
        return [
            (RowKind(mark.kind), int(value.strip(b'"')))
            for mark, value in zip(marks, found.values, strict=True)
            if mark.kind != COMPLETE
        ]

    def ids(self, table: str) -> list[int]:
        return [i for _, i in self.rows(table)]

    def kill_connections(self) -> None:
        """Ends all connections to the server but the one that says so."""
        with_id = "SELECT id FROM information_schema.processlist WHERE id <> CONNECTION_ID()"
        connection = self.database.connect()
        cursor = connection.cursor()
        cursor.execute(with_id + " AND command LIKE 'Binlog%'")
        for (one,) in cursor.fetchall():
            cursor.execute(f"KILL {one}")
        connection.close()

    def close(self) -> None:
        if self.receiver is not None:
            self.receiver.close()
            self.receiver = None


@pytest.fixture
def follower(mariadb: MariaDbServer) -> Iterator[Follower]:
    database = Database(mariadb.url, "root")
    database.execute(
        f"DROP TABLE IF EXISTS {', '.join(_TABLES)}",
        "CREATE TABLE numbers (id BIGINT PRIMARY KEY)",
        "CREATE TABLE others (id BIGINT PRIMARY KEY)",
    )
    made = Follower(database, Account("127.0.0.1", mariadb.port, "root", None, 5))
    made.connect()
    for _ in _TABLES:
        made.take()  # where there is no snapshot the place of its end alone
    yield made
    made.close()


@pytest.mark.parametrize("origin", [1, pytest.param(9, marks=pytest.mark.slow)])
def test_a_large_transaction_goes_on_behind_a_restart(follower: Follower, origin: int) -> None:
    follower.database.execute(
        "INSERT INTO others VALUES (1)",
        f"SET SESSION server_id = {origin}",
        "BEGIN",
        "INSERT INTO others VALUES (2)",
        "INSERT INTO numbers SELECT seq FROM seq_1_to_50000",
        "INSERT INTO others VALUES (3)",
        "COMMIT",
        "INSERT INTO others VALUES (4)",
    )
    follower.take_until(lambda: bool(follower.ids("numbers")))
    assert 0 < len(follower.ids("numbers")) < 50_000
    follower.take_with_restarts(lambda: follower.ids("others")[-1:] == [4])
    assert follower.ids("numbers") == list(range(1, 50_001))
    assert follower.ids("others") == [1, 2, 3, 4]


def test_a_savepoint_ends_no_transaction(follower: Follower) -> None:
    follower.database.execute(
        "BEGIN",
        "INSERT INTO numbers VALUES (1)",
        "SAVEPOINT a",
        "INSERT INTO numbers SELECT seq FROM seq_2_to_30000",
        "SAVEPOINT b",
        "INSERT INTO numbers VALUES (30001)",
        "ROLLBACK TO b",
        "INSERT INTO numbers VALUES (30002)",
        "COMMIT",
    )
    follower.take_with_restarts(lambda: follower.ids("numbers")[-1:] == [30_002])
    assert follower.ids("numbers") == [*range(1, 30_001), 30_002]


def test_a_connection_that_is_ended_repeats_nothing(follower: Follower) -> None:
    follower.database.execute("INSERT INTO numbers VALUES (1)")
    follower.take_until(lambda: follower.ids("numbers") == [1])
    follower.kill_connections()
    follower.database.execute("INSERT INTO numbers VALUES (2)")
    with pytest.raises(Unreachable):
        follower.take_until(lambda: False)
    follower.connect()
    follower.take_until(lambda: follower.ids("numbers")[-1:] == [2])
    assert follower.ids("numbers") == [1, 2]


@pytest.mark.parametrize("statement", ["TRUNCATE numbers", "truncate table `app`.`numbers`"])
def test_a_table_that_is_truncated_is_told(follower: Follower, statement: str) -> None:
    follower.database.execute(
        "INSERT INTO numbers VALUES (1)", statement, "INSERT INTO numbers VALUES (2)"
    )
    told = stream("numbers", follower.start)
    for number in range(2):
        follower.database.execute(f"INSERT INTO others VALUES ({number})")
        follower.take_until(lambda: len(follower.ids("others")) == number + 1)  # noqa: B023
        assert follower.receiver is not None
        assert "table 'app.numbers' was truncated" in (follower.receiver.refused(told) or "")
        assert follower.ids("numbers") == [1]
        follower.connect()
    follower.database.execute("TRUNCATE others")
    with pytest.raises(ServiceError, match=r"table 'app.others' was truncated"):
        follower.take_until(lambda: False)
    follower.skips = True
    follower.connect()
    follower.take_until(lambda: follower.ids("numbers") == [1, 2])


def test_a_server_that_says_nothing_is_gone(
    follower: Follower, mariadb: MariaDbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(binlog, "_SILENCE_S", 1)
    follower.connect()
    follower.take()
    os.kill(mariadb.pid, signal.SIGSTOP)
    try:
        with pytest.raises(Unreachable):
            follower.take_until(lambda: False)
    finally:
        os.kill(mariadb.pid, signal.SIGCONT)


def test_a_log_of_several_domains_is_told() -> None:
    first, other = Gtid.parsed("0-1-7"), Gtid.parsed("5-1-8")
    require_order(Gtid(0), first)
    require_order(first, Gtid.parsed("0-2-9"))
    with pytest.raises(ServiceError, match=r"several domains \(0-1-7, then 5-1-8\)"):
        require_order(first, other)
    with pytest.raises(ServiceError, match="0-3-7 comes behind 0-1-7"):
        require_order(first, Gtid.parsed("0-3-7"))


# ---- where logs begin ----------------------------------------------------------------------------

_OFFSET = "scan.startup.specific-offset."


def _only_file(follower: Follower) -> bool:
    """Removes the files of the log but for the last one; False where others are read still."""
    follower.database.execute("PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 HOUR")
    return len(follower.database.query("SHOW BINARY LOGS")) == 1


def _start(follower: Follower, mode: str) -> dict[str, str]:
    """What says that a log begins here."""
    if mode == "gtid":
        ((at,),) = follower.database.query("SELECT @@gtid_binlog_pos")
        return {"startup": "specific-offset", f"{_OFFSET}gtid-set": str(at)}
    if mode == "file":
        ((file, at, *_),) = follower.database.query("SHOW MASTER STATUS")
        place = {f"{_OFFSET}file": str(file), f"{_OFFSET}pos": str(at)}
        return {"startup": "specific-offset", **place}
    if mode == "timestamp":
        time.sleep(1.1)
        return {"startup": mode, "scan.startup.timestamp-millis": f"{int(time.time())}999"}
    return {"startup": mode}


_SLOW = [pytest.param(m, marks=pytest.mark.slow) for m in ("timestamp", "earliest-offset")]


@pytest.mark.parametrize("mode", ["gtid", "file", *_SLOW])
def test_a_log_begins_at_a_place(follower: Follower, mode: str) -> None:
    """Of changes that were there before anybody read them; and goes on behind restarts."""
    follower.close()
    follower.database.execute("INSERT INTO numbers VALUES (1)", "TRUNCATE others")
    follower.database.execute("FLUSH BINARY LOGS")
    eventually(lambda: _only_file(follower))
    if mode != "earliest-offset":
        follower.database.execute("INSERT INTO numbers VALUES (2)", "TRUNCATE others")
    follower.start = _start(follower, mode)
    follower.database.execute(
        "UPDATE numbers SET id = 3 WHERE id = 1", "FLUSH BINARY LOGS", "INSERT INTO others VALUES (1)",
        "BEGIN", "INSERT INTO others VALUES (2)", "INSERT INTO numbers SELECT seq FROM seq_4_to_24000", "COMMIT",
    )  # fmt: skip
    follower.take_with_restarts(lambda: follower.ids("numbers")[-1:] == [24_000])
    before, after = RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER
    assert follower.rows("numbers")[:3] == [(before, 1), (after, 3), (RowKind.INSERT, 4)]
    assert len(follower.rows("numbers")) == 2 + 23_997
    assert follower.ids("others") == [1, 2]


def test_places_that_are_none_are_told(follower: Follower) -> None:
    follower.close()
    ((file, at, *_),) = follower.database.query("SHOW MASTER STATUS")
    follower.database.execute(
        "BEGIN", "INSERT INTO numbers VALUES (1)", "INSERT INTO numbers VALUES (2)", "COMMIT"
    )
    events = follower.database.query(f"SHOW BINLOG EVENTS IN '{file}' FROM {at}")
    within = str([e[1] for e in events if "Write_rows" in str(e[2])][-1])
    place = {"startup": "specific-offset", f"{_OFFSET}file": str(file), f"{_OFFSET}pos": within}
    follower.start = place
    with pytest.raises(ServiceError, match="is within a transaction of the log"):
        follower.connect()
    follower.start = {**place, f"{_OFFSET}file": "binlog.999999"}
    with pytest.raises(ServiceError, match="Could not find target log"):
        follower.connect()
    follower.start = {"startup": "specific-offset", f"{_OFFSET}gtid-set": "0-1-999999"}
    follower.connect()
    with pytest.raises(Unreachable, match="not in the master's binlog"):
        follower.take_until(lambda: False)


def test_a_table_that_is_not_there_holds_up_no_other(
    follower: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told of itself alone, and followed once it is there."""
    monkeypatch.setattr(refusals, "_AGAIN_S", 0.5)
    follower.close()
    initial = {"startup": "initial"}
    wanted, other = stream("numbers", initial), stream("later", initial)
    wrong = Stream("server", {**wanted.what, "columns": '["ident"]'}, 1 << 30, 0, 0, 0)
    follower.receiver = MariaDbReceiver(Place(follower.account), 77, skips=False)
    follower.receiver.connect([wanted, other, wrong], [], follower.tail)
    follower.start = initial
    follower.database.execute("DROP TABLE IF EXISTS later", "INSERT INTO numbers VALUES (1)")
    follower.take_until(lambda: follower.ids("numbers") == [1])
    assert follower.receiver.refused(wanted) is None
    assert "later' doesn't exist" in (follower.receiver.refused(other) or "")
    assert "Unknown column 'ident'" in (follower.receiver.refused(wrong) or "")
    follower.database.execute(
        "CREATE TABLE later (id BIGINT PRIMARY KEY)", "INSERT INTO later VALUES (5)"
    )
    follower.take_until(lambda: follower.ids("later") == [5])
    assert follower.receiver.refused(other) is None
    follower.database.execute("INSERT INTO numbers VALUES (2)", "INSERT INTO later VALUES (6)")
    follower.take_until(
        lambda: (follower.ids("numbers"), follower.ids("later")) == ([1, 2], [5, 6])
    )
