"""Tables that are asked for the rows of keys: equal to tables that are read whole, repeated after a
crash as they were answered, and out of reach without harm to others."""

from __future__ import annotations

import json
import signal
import sqlite3
import tempfile
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parser.types import INT, STRING, Schema
from sqlengine.executors.dimensions.answer_cache import AnswerCache, Keeping
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.connectors.tables import Clock
from tests.service.harness import Process, User, running
from tests.sql.golden import Collected
from tests.support import eventually

TABLES = """
CREATE TABLE asks (k STRING, n INT, v INT, p AS PROCTIME())
WITH ('connector' = 'filesystem', 'path' = '{folder}/asks.json', 'format' = 'json');
CREATE TABLE dim (k STRING, n INT, w INT, u AS UPPER(k))
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{folder}/dim.db', 'table-name' = 'dim'{cache});
"""
_FOUND = "FROM asks AS a {} JOIN dim FOR SYSTEM_TIME AS OF a.p AS d ON"
QUERIES = (
    f"SELECT v, w {_FOUND.format('')} a.k = d.k",
    f"SELECT v, w {_FOUND.format('LEFT')} d.n = a.n AND a.k = d.k AND d.w > a.v",
    f"SELECT v, w, u {_FOUND.format('LEFT')} a.n = d.n AND a.k IS NOT DISTINCT FROM d.u AND d.w < 3",
    f"""SELECT v, w {_FOUND.format("LEFT")}
    a.k IS NOT DISTINCT FROM d.k AND COALESCE(a.k, 'A') = d.k AND d.n + 0 = a.n""",
    """SELECT v FROM asks AS a WHERE NOT EXISTS
    (SELECT 1 FROM dim FOR SYSTEM_TIME AS OF a.p AS d WHERE d.n = a.n AND d.w >= a.v)""",
)
Row = tuple[str | None, int | None, int]


def made(path: Path, rows: Sequence[Row]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE dim (k TEXT, n INTEGER, w INTEGER)")
        connection.executemany("INSERT INTO dim VALUES (?, ?, ?)", rows)
        connection.commit()


def run(folder: Path, query: str, cache: str, more: str = "") -> list[str]:
    option = f", 'lookup.cache' = '{cache}{more}'" if cache else ""
    text = TABLES.format(folder=folder, cache=option) + query + ";"
    collected = Collected(text)
    with open_runner(folder / f"data-{cache}", rows_per_read=3) as runner:
        assert Session(runner, collected).run(text), collected.messages
    return sorted(repr(e["row"]) for e in collected.events if e["kind"] == "row")


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["A", "a", "it's", "%s?", None]),
        st.sampled_from([0, 1, -1, None]),
        st.integers(0, 4),
    ),
    max_size=9,
)


THREE: list[Row] = [("A", 0, 1), ("a", 0, 2), ("it's", 0, 3)]


@example(dim=THREE, asks=[THREE[0]] * 4 + THREE[1:], query=QUERIES[0])
@settings(max_examples=12, deadline=None)
@given(dim=ROWS, asks=ROWS, query=st.sampled_from(QUERIES))
def test_it_finds_what_a_table_that_is_read_finds(
    dim: list[Row], asks: list[Row], query: str
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made(folder / "dim.db", dim)
        lines = [json.dumps({"k": k, "n": n, "v": v}) for k, n, v in asks]
        (folder / "asks.json").write_text("".join(f"{line}\n" for line in lines))
        wanted = run(folder, query, "")
        assert run(folder, query, "PARTIAL") == wanted
        assert run(folder, query, "NONE") == wanted
        # A batch has more keys than are kept: what it found is not lost to what it asks for.
        assert run(folder, query, "PARTIAL", "', 'lookup.partial-cache.max-rows' = '2") == wanted


RETRY = "'retry-predicate'='lookup_miss', 'retry-strategy'='fixed_delay', 'fixed-delay'='{}', 'max-attempts'='{}'"


@pytest.mark.parametrize("cache", ["PARTIAL", "NONE"])
def test_a_key_that_is_missing_is_asked_for_again(tmp_path: Path, cache: str) -> None:
    made(tmp_path / "dim.db", THREE)
    asks = ('{"k": "A", "v": 1}', '{"k": "late", "v": 2}', '{"k": "never", "v": 3}')
    (tmp_path / "asks.json").write_text("\n".join(asks))
    hint = f"/*+ LOOKUP('table'='d', {RETRY.format('200 ms', 8)}) */"
    query = f"SELECT {hint} v, w {_FOUND.format('LEFT')} a.k = d.k AND d.w > 0"

    def insert() -> None:
        with closing(sqlite3.connect(tmp_path / "dim.db")) as connection:
            connection.execute("INSERT INTO dim VALUES ('late', 0, 7)")
            connection.commit()

    came = threading.Timer(0.5, insert)
    came.start()
    assert run(tmp_path, query, cache) == ["[1, 1]", "[2, 7]", "[3, None]"]
    came.join()


@pytest.mark.parametrize(
    ("delay", "attempts", "told"),
    [
        ("soon", "3", "invalid value 'soon' of 'fixed-delay'"),
        ("1 s", "many", "'max-attempts' of hint LOOKUP is a whole number, and not 'many'"),
        ("1 min", "2", "table 'dim' would be asked again for 120 s"),
    ],
)
def test_how_a_table_cannot_be_asked_again(
    tmp_path: Path, delay: str, attempts: str, told: str
) -> None:
    made(tmp_path / "dim.db", THREE)
    (tmp_path / "asks.json").write_text('{"k": "A", "n": 0, "v": 1}\n')
    hint = f"/*+ LOOKUP('table'='d', {RETRY.format(delay, attempts)}) */"
    with pytest.raises(AssertionError, match=told):
        run(tmp_path, QUERIES[0].replace("SELECT", f"SELECT {hint}"), "NONE")


def test_no_row_waits_for_one_that_is_missing(tmp_path: Path) -> None:
    made(tmp_path / "dim.db", THREE)
    query = QUERIES[0].replace("SELECT", "SELECT /*+ LOOKUP('table'='d', {}) */")
    (tmp_path / "asks.json").write_text('{"k": "A", "n": 0, "v": 1}\n')
    for what in ("'async'='true', 'capacity'='9'", "'retry-predicate'='lookup_miss'"):
        assert run(tmp_path, query.format(what), "NONE") == ["[1, 1]"]


JOB = """
CREATE TABLE sales (id BIGINT, client STRING, now AS PROCTIME())
WITH ('connector' = 'topic', 'topic' = 'sales', 'format' = 'json');
CREATE TABLE clients (id STRING, name STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'jdbc', 'url' = 'jdbc:sqlite:{path}', 'table-name' = 'clients',
  'lookup.cache' = '{cache}');
CREATE TABLE named (id BIGINT, name STRING) WITH ('connector' = 'topic', 'topic' = 'named', 'format' = 'json');
CREATE TABLE totals (name STRING, n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'debezium-json');
CREATE TABLE plain (id BIGINT) WITH ('connector' = 'topic', 'topic' = 'plain', 'format' = 'json');
"""
LOOKED_UP = "FROM sales AS s LEFT JOIN clients FOR SYSTEM_TIME AS OF s.now AS c ON s.client = c.id"
NAMED = f"INSERT INTO named SELECT s.id, c.name {LOOKED_UP}"
TOTALS = f"INSERT INTO totals SELECT c.name, COUNT(*) {LOOKED_UP} GROUP BY c.name"
PLAIN = "INSERT INTO plain SELECT id FROM sales"


def clients(path: Path, **names: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS clients (id TEXT PRIMARY KEY, name TEXT)")
        connection.executemany("INSERT OR REPLACE INTO clients VALUES (?, ?)", names.items())
        connection.commit()


def renamed(path: Path, old: str, new: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"ALTER TABLE {old} RENAME TO {new}")


def begun(user: User, path: Path, cache: str = "PARTIAL") -> None:
    for topic in ("sales", "named", "totals", "plain"):
        user.topic(topic)
    user.submit("tables", JOB.format(path=path, cache=cache))
    for name, text in {"named": NAMED, "totals": TOTALS, "plain": PLAIN}.items():
        user.submit(name, text)


def totals(user: User) -> list[object]:
    return [row["after"] for row in user.read("totals") if row["after"] is not None]


@pytest.mark.parametrize("cache", ["PARTIAL", "NONE"])
def test_an_epoch_is_repeated_with_the_answers_that_it_had(tmp_path: Path, cache: str) -> None:
    path = tmp_path / "clients.db"
    clients(path, a="old")
    options = "checkpoint_ms=3600000"
    with Process(tmp_path / "data", options=options) as life:
        user = life.user()
        begun(user, path, cache)
        user.write("sales", *({"id": i, "client": "a"} for i in range(5)))
        eventually(lambda: len(user.read("named")) == 5)
        eventually(lambda: totals(user)[-1:] == [{"name": "old", "n": 5}])
        assert life.end(signal.SIGKILL) == -signal.SIGKILL
    clients(path, a="new")
    with Process(tmp_path / "data", options=options) as life:
        user = life.user()
        user.write("sales", {"id": 5, "client": "a"})
        eventually(lambda: len(user.read("named")) == 6)
        assert [r["name"] for r in user.read("named")] == ["old"] * 5 + ["new"]
        eventually(lambda: totals(user)[-1] == {"name": "new", "n": 1})
        assert totals(user)[-2] == {"name": "old", "n": 5}


def counted(user: User, n: int) -> None:
    eventually(lambda: totals(user)[-1:] == [{"name": "one", "n": n}])


def test_how_a_table_is_asked_may_change_under_a_job(tmp_path: Path) -> None:
    """Its counts go on; the cache of before is gone, and a changed table is another one."""
    path = tmp_path / "clients.db"
    clients(path, a="one")
    with running(tmp_path / "data") as (_, user):
        begun(user, path)
        user.write("sales", {"id": 0, "client": "a"})
        counted(user, 1)
        for n, cache in enumerate(("PARTIAL', 'lookup.partial-cache.max-rows' = '5", "NONE"), 2):
            user.submit("tables", JOB.format(path=path, cache=cache))
            user.write("sales", {"id": n, "client": "a"})
            counted(user, n)
        clients(path, a="two")
        user.write("sales", {"id": 9, "client": "a"})
        eventually(lambda: user.read("named")[-1:] == [{"id": 9, "name": "two"}])


@pytest.mark.parametrize("cache", ["PARTIAL", "FULL"])
def test_another_database_may_take_the_place_of_one(tmp_path: Path, cache: str) -> None:
    """As if its rows had changed: the counts go on. One that is not there is refused."""
    path, other = tmp_path / "clients.db", tmp_path / "other.db"
    clients(path, a="one", b="old")
    with running(tmp_path / "data") as (_, user):
        begun(user, path, cache)
        user.write("sales", {"id": 0, "client": "a"})
        counted(user, 1)
        moved = JOB.format(path=other, cache=cache)
        assert "unable to open" in str(user.refused(lambda: user.submit("tables", moved)))
        clients(other, a="one", b="new")
        user.submit("tables", moved)
        user.write("sales", {"id": 1, "client": "a"})
        counted(user, 2)
        user.write("sales", {"id": 2, "client": "b"})
        eventually(lambda: user.read("named")[-1:] == [{"id": 2, "name": "new"}])
        kinds = moved.replace("name STRING, PRIMARY", "name VARCHAR(9), PRIMARY")
        assert "would be lost" in str(user.refused(lambda: user.submit("tables", kinds)))


def test_how_often_a_table_is_read_may_change_under_a_job(tmp_path: Path) -> None:
    path, data = tmp_path / "clients.db", tmp_path / "data"
    interval = "FULL', 'lookup.full-cache.periodic-reload.interval' = '{}"
    clients(path, a="one")
    with running(data) as (_, user):
        begun(user, path, interval.format("1 h"))
        user.write("sales", {"id": 0, "client": "a"})
        counted(user, 1)
        user.submit("tables", JOB.format(path=path, cache=interval.format("50 ms")))
        user.write("sales", {"id": 1, "client": "a"})
        counted(user, 2)
    with running(data) as (_, user):
        user.write("sales", {"id": 2, "client": "a"})
        counted(user, 3)
        clients(path, a="two")
        eventually(
            lambda: user.write("sales", {"id": 3, "client": "a"}) or "two" in str(totals(user))
        )


def test_a_table_out_of_reach_costs_its_own_job_a_pause(tmp_path: Path) -> None:
    path = tmp_path / "clients.db"
    clients(path, a="one")
    with running(tmp_path / "data") as (_, user):
        begun(user, path)
        user.write("sales", {"id": 1, "client": "a"})
        eventually(lambda: user.read("named") == [{"id": 1, "name": "one"}])
        user.write("sales", {"id": 1, "client": "a"})
        eventually(lambda: user.metric("sqlengine_lookup_keys_total") == 4)
        assert user.metric("sqlengine_lookup_keys_asked_total") == 2  # by two jobs
        renamed(path, "clients", "gone")
        user.write("sales", {"id": 2, "client": "b"})
        eventually(lambda: user.read("plain")[-1] == {"id": 2})
        # The second of them fails while the graph is recovered without the first.
        eventually(lambda: [user.states()[n] for n in ("named", "totals")] == ["restarting"] * 2)
        assert "cannot be asked for rows" in user.job("named")["reason"]
        assert user.letters() == []
        renamed(path, "gone", "clients")
        clients(path, b="two")
        for name in ("named", "totals"):
            user.client.post(f"/api/v1/jobs/{name}/start", {})
        eventually(lambda: user.read("named")[2:] == [{"id": 2, "name": "two"}])
        eventually(
            lambda: (
                totals(user)
                == [{"name": n, "n": i} for n, i in (("one", 1), ("one", 2), ("two", 1))]
            )
        )


@pytest.mark.parametrize(
    ("columns", "on", "words"),
    [
        ("id STRING, name STRING", "UPPER(c.id) = s.client", "cannot be asked for what the join"),
        ("id INT, name STRING", "c.id = CAST(s.id AS INT)", "cannot be asked by column 'id'"),
        ("id STRING, nobody STRING", "c.id = s.client", "nobody"),
    ],
)
def test_what_cannot_be_asked_is_refused(tmp_path: Path, columns: str, on: str, words: str) -> None:
    path = tmp_path / "clients.db"
    clients(path, a="one")
    with running(tmp_path / "data") as (_, user):
        for topic in ("sales", "named"):
            user.topic(topic)
        tables = JOB.format(path=path, cache="PARTIAL").replace(
            "id STRING, name STRING, PRIMARY KEY (id) NOT ENFORCED", columns
        )
        user.submit("tables", tables)
        text = NAMED.replace("c.name", "CAST(c.id AS STRING)").replace("s.client = c.id", on)
        refused = user.refused(lambda: user.submit("named", text))
        assert words in f"{refused} {refused.detail}"


def test_the_cache_forgets_by_use_and_by_time() -> None:
    clock = Clock(0)
    schema = Schema.of(k=STRING, n=INT)
    cache = AnswerCache(schema, Keeping(4, written_ms=100, used_ms=50), clock)

    def put(*rows: tuple[bytes, int]) -> None:
        keys = [k for k, _ in rows]
        of = np.repeat(np.arange(len(rows)), [n for _, n in rows])
        texts = [keys[i].decode() for i in of]
        cache.put(keys, [pa.array(texts), pa.array(of, pa.int32())], of)

    def kept(key: bytes) -> list[str] | None:
        slots = cache.get(key)
        if slots is None:
            return None
        found: list[str] = cache.columns(slots)[0].to_pylist()
        return found

    put((b"a", 2), (b"b", 0), (b"c", 1))
    assert (kept(b"a"), kept(b"b"), kept(b"c"), len(cache)) == (["a", "a"], [], ["c"], 4)
    assert kept(b"a") is not None
    put((b"d", 1))  # b was used before a and c
    assert (kept(b"b"), kept(b"d"), len(cache)) == (None, ["d"], 4)
    clock.now = 49
    assert kept(b"a") == ["a", "a"]
    clock.now = 60
    assert (kept(b"c"), kept(b"a")) == (None, ["a", "a"])
    clock.now = 100
    assert kept(b"a") is None
    clock.now = 0
    only = AnswerCache(schema, Keeping(100, missing=False), clock)
    only.put([b"x"], [pa.array([], pa.string()), pa.array([], pa.int32())], np.zeros(0, np.int64))
    assert only.get(b"x") is None
