"""Systems whose tables jobs on Spark read and write: each is a table that is written from outside, and
one that a job copies it to."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.connectors.databases import Database
from tests.connectors.rocketmq.cluster import Cluster, rows, send
from tests.connectors.rocketmq.cluster import running as running_rocketmq
from tests.servers.kafka import KafkaServer
from tests.servers.mariadb import MariaDbServer
from tests.servers.postgresql import PostgresServer
from tests.servers.process import started
from tests.servers.rocketmq import RocketServer

Rows = Counter[tuple[int, int]]
_GROUPS = 7
_COPIES = "INSERT INTO given SELECT id, v FROM taken"
_DATABASE = """
CREATE TABLE taken (id BIGINT, v BIGINT, pt AS PROCTIME(), PRIMARY KEY (id) NOT ENFORCED) WITH ({source});
CREATE TABLE given (id BIGINT, v BIGINT, PRIMARY KEY (id) NOT ENFORCED) WITH ({jdbc}, 'table-name' = 'given');
"""


class System(ABC):
    """A table `taken` in a real server, and what is there of its rows (id, v) in the end."""

    tables: str

    def __init__(self) -> None:
        self.jobs = {"copies": _COPIES}

    @abstractmethod
    def write(self, count: int) -> None:
        """Writes rows that are new, and changes of others where the system tells these."""

    @abstractmethod
    def taken(self) -> Rows:
        """Returns the rows that `taken` has."""

    @abstractmethod
    def given(self) -> Rows:
        """Returns the rows that `given` has, as those see them to whom exactly once is promised."""

    def wrong(self) -> object:
        """Returns what else is not as it must be."""
        return None


def sums(rows: Rows) -> dict[int, tuple[int, int]]:
    """Returns how many rows a group has, and the sum of their `v`."""
    found: dict[int, tuple[int, int]] = {}
    for (number, v), times in rows.items():
        n, total = found.get(number % _GROUPS, (0, 0))
        found[number % _GROUPS] = n + times, total + v * times
    return found


class _Messages(System):
    """A topic of records."""

    def __init__(self) -> None:
        super().__init__()
        self._written: Rows = Counter()

    def taken(self) -> Rows:
        return self._written

    def _lines(self, count: int) -> list[bytes]:
        begin = self._written.total()
        numbers = range(begin, begin + count)
        self._written.update((n, n * n) for n in numbers)
        return [json.dumps({"id": n, "v": n * n}).encode() for n in numbers]


class _Kafka(_Messages):
    def __init__(self, server: KafkaServer) -> None:
        from tests.connectors.kafka.clients import Kafka, Record

        super().__init__()
        self._kafka, self._record = Kafka(server), Record
        self._kafka.warm()
        self._from, self._to = self._kafka.topic(3), self._kafka.topic(2)
        options = "'connector' = 'kafka', 'properties.bootstrap.servers' = '{}', 'format' = 'json'"
        options = options.format(server.address)
        once = (
            "'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'spark'"
        )
        self.tables = f"""
CREATE TABLE taken (id BIGINT, v BIGINT) WITH ({options}, 'topic' = '{self._from}',
  'scan.startup.mode' = 'earliest-offset');
CREATE TABLE given (id BIGINT, v BIGINT) WITH ({options}, 'topic' = '{self._to}', {once});
"""

    def write(self, count: int) -> None:
        lines = enumerate(self._lines(count))
        self._kafka.write(self._from, [self._record(line, partition=n % 3) for n, line in lines])

    def given(self) -> Rows:
        found = (json.loads(value or b"{}") for value in self._kafka.values(self._to))
        return Counter((row["id"], row["v"]) for row in found)


class _RocketMq(_Messages):
    """Exactly once is promised to readers with the connector."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._from, self._to = cluster.topic(2), cluster.topic(3)
        self._options = cluster.options(self._to)
        self.tables = f"""
CREATE TABLE taken (id BIGINT, v BIGINT) WITH ({cluster.sql(self._from)});
CREATE TABLE given (id BIGINT, v BIGINT) WITH ({cluster.sql(self._to, keyColumns="id")});
"""

    def write(self, count: int) -> None:
        send(self._from, self._lines(count // 2), 0)
        send(self._from, self._lines(count - count // 2), 1)

    def given(self) -> Rows:
        return Counter((row["id"], row["v"]) for row in rows(self._options))


class _Database(System):
    """Changes of a table, and a table beside it."""

    def __init__(self, database: Database, source: str, jdbc: str) -> None:
        super().__init__()
        self.database = database
        self._next = count()
        self._run(
            "CREATE TABLE taken (id BIGINT PRIMARY KEY, v BIGINT)",
            "CREATE TABLE given (id BIGINT PRIMARY KEY, v BIGINT)",
        )
        self.write(100)
        self.tables = _DATABASE.format(source=source, jdbc=jdbc)

    def _run(self, *statements: str) -> None:
        self.database.execute(*statements)

    def write(self, count: int) -> None:
        numbers = [next(self._next) for _ in range(count)]
        values = ", ".join(f"({n}, {n * n})" for n in numbers)
        self._run(f"INSERT INTO taken VALUES {values}")
        for number in numbers[::5]:
            self._run(
                f"UPDATE taken SET v = v + 1 WHERE id BETWEEN {number // 2} AND {number // 2 + 20}"
            )
        self._run(f"DELETE FROM taken WHERE id = {numbers[1]}")

    def taken(self) -> Rows:
        return self._rows("taken")

    def given(self) -> Rows:
        return self._rows("given")

    def _rows(self, name: str) -> Rows:
        return Counter((int(str(n)), int(str(v))) for n, v in self.database.rows(name))


class _PostgreSql(_Database):
    """Names of groups are in a table that tasks read by partitions, and ask for the rows of keys."""

    def __init__(self, server: PostgresServer) -> None:
        jdbc = f"'connector' = 'jdbc', 'url' = '{server.url}', 'username' = 'postgres'"
        source = f"""'connector' = 'postgres-cdc', 'hostname' = '127.0.0.1', 'port' = '{server.port}',
  'username' = 'postgres', 'database-name' = 'postgres', 'schema-name' = 'public', 'table-name' = 'taken',
  'slot.name' = 'spark'"""
        super().__init__(Database(server.url, "postgres"), source, jdbc)
        self._run(
            "ALTER TABLE taken REPLICA IDENTITY FULL",
            "CREATE TABLE names (k BIGINT PRIMARY KEY, name TEXT)",
            f"INSERT INTO names SELECT i, 'n' || i FROM generate_series(0, {_GROUPS - 1}) i",
            "CREATE TABLE named (id BIGINT PRIMARY KEY, asked TEXT, scanned TEXT)",
        )
        key = f"(k BIGINT, name STRING, PRIMARY KEY (k) NOT ENFORCED) WITH ({jdbc}, 'table-name' = 'names'"
        parts = "'scan.partition.column' = 'k', 'scan.partition.num' = '2'"
        bounds = f"'scan.partition.lower-bound' = '0', 'scan.partition.upper-bound' = '{_GROUPS}'"
        self.tables += f"""
CREATE TABLE asked {key}, 'lookup.cache' = 'NONE');
CREATE TABLE scanned {key}, {parts}, {bounds});
CREATE TABLE named (id BIGINT, asked STRING, scanned STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ({jdbc}, 'table-name' = 'named');
"""
        self.jobs["named"] = f"""INSERT INTO named SELECT t.id, a.name, s.name FROM taken AS t
JOIN asked FOR SYSTEM_TIME AS OF t.pt AS a ON MOD(t.id, {_GROUPS}) = a.k
JOIN scanned AS s ON MOD(t.id, {_GROUPS}) = s.k ON CONFLICT DO DEDUPLICATE"""

    def wrong(self) -> object:
        wanted = [(n, f"n{n % _GROUPS}", f"n{n % _GROUPS}") for n, _ in sorted(self.taken())]
        return set(wanted) ^ set(self.database.rows("named"))


class _MariaDb(_Database):
    def __init__(self, server: MariaDbServer) -> None:
        jdbc = f"'connector' = 'jdbc', 'url' = '{server.url}', 'username' = 'root'"
        source = f"""'connector' = 'mysql-cdc', 'hostname' = '127.0.0.1', 'port' = '{server.port}',
  'username' = 'root', 'database-name' = 'app', 'table-name' = 'taken'"""
        super().__init__(Database(server.url, "root"), source, jdbc)


@contextmanager
def system(name: str, folder: Path) -> Iterator[System]:
    """Runs the server of a system; skips the test where it cannot run."""
    if name == "rocketmq":
        with running_rocketmq(RocketServer(folder)) as cluster:
            yield _RocketMq(cluster)
    elif name == "kafka":
        with started(KafkaServer(folder)) as kafka:
            yield _Kafka(kafka)
    elif name == "postgresql":
        with started(PostgresServer(folder)) as postgresql:
            yield _PostgreSql(postgresql)
    else:
        with started(MariaDbServer(folder)) as mariadb:
            yield _MariaDb(mariadb)
