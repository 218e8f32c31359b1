"""Streams put together in Python: the plans of the same in SQL, and the rows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from sqlengine import (
    Connection,
    ProcessContext,
    ServiceError,
    SqlError,
    Stream,
    TableRow,
    connect,
    cumulate,
    hop,
    process_function,
    sessions,
    tumble,
    udtf,
)

LIMIT = 15
MINUTE = dt.timedelta(minutes=1)


@udtf
def words(line: str) -> Iterator[tuple[str, int]]:
    for word in line.split():
        yield word, len(word)


def half(price: int) -> float:
    return price / 2


@process_function
class Nth:
    @dataclass
    class State:
        n: int = 0

    def eval(
        self, ctx: ProcessContext[State], bid: TableRow[Any], word: str = "bid"
    ) -> Iterator[str]:
        ctx.state.n += 1
        yield f"{word} {ctx.state.n} of {bid.item}"


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    with connect(data=tmp_path_factory.mktemp("streams") / "data") as connection:
        at = dt.datetime(2026, 1, 1)
        bids = [("a", 10, 0), ("b", 20, 30), ("a", 30, 60), ("c", 5, 90)]
        rows = [{"item": i, "price": p, "at": at + dt.timedelta(seconds=s)} for i, p, s in bids]
        connection.register_table("bids", rows, event_time="at")
        connection.register_table("items", [{"item": "a", "place": "hall"}])
        yield connection


def merged(plan: str) -> list[str]:
    """The operations of the optimised graph, without their ids."""
    lines = plan.partition("== merged into the graph")[2].partition("\n== ")[0].splitlines()[1:]
    return [line.partition(" ")[2] for line in lines]


def plans(connection: Connection) -> dict[str, tuple[Stream, str]]:
    bids, items = connection.source("bids"), connection.source("items")
    return {
        "filter": (bids.filter("price > 10"), "SELECT * FROM bids WHERE price > 10"),
        "map": (
            bids.filter("price > 10").map("item", twice="price * 2"),
            "SELECT item, price * 2 AS twice FROM bids WHERE price > 10",
        ),
        "aggregate": (
            bids.key_by("item").aggregate(n="COUNT(*)"),
            "SELECT item, COUNT(*) AS n FROM bids GROUP BY item",
        ),
        "window": (
            bids.filter("price > 10")
            .key_by("item")
            .window(tumble("rowtime", MINUTE))
            .aggregate(n="COUNT(*)"),
            """SELECT item, window_start, window_end, COUNT(*) AS n
            FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(rowtime), INTERVAL '1' MINUTE))
            WHERE price > 10 GROUP BY item, window_start, window_end""",
        ),
        "hop": (
            bids.window(hop("rowtime", MINUTE, 2 * MINUTE)).aggregate(n="COUNT(*)"),
            """SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(HOP(TABLE bids,
            DESCRIPTOR(rowtime), INTERVAL '1' MINUTE, INTERVAL '2' MINUTE))
            GROUP BY window_start, window_end""",
        ),
        "join": (
            bids.join(items, on="item"),
            "SELECT * FROM bids JOIN items USING (item)",
        ),
        "left join": (
            bids.join(items, on="l.item = r.item", how="left"),
            "SELECT * FROM bids LEFT JOIN items ON bids.item = items.item",
        ),
        "union": (
            bids.map("item").union(items.map("item")),
            "SELECT item FROM bids UNION ALL SELECT item FROM items",
        ),
    }


def test_plans_are_those_of_the_same_in_sql(connection: Connection) -> None:
    for name, (stream, sql) in plans(connection).items():
        wanted = "\n".join(str(row[0]) for row in connection.sql(f"EXPLAIN {sql}"))
        assert merged(stream.explain()) == merged(wanted), name
        assert merged(wanted)


def test_windows_of_every_kind(connection: Connection) -> None:
    bids = connection.source("bids").key_by()
    counts = {
        window.function: [row.n for row in bids.window(window).aggregate(n="COUNT(*)").run()]
        for window in (
            tumble("rowtime", "INTERVAL '1' MINUTE"),
            cumulate("rowtime", dt.timedelta(seconds=30), MINUTE),
            sessions("rowtime", dt.timedelta(seconds=40)),
        )
    }
    assert counts == {"TUMBLE": [2, 2], "CUMULATE": [1, 2, 1, 2], "SESSION": [4]}


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (dt.timedelta(seconds=90), "INTERVAL '90' SECOND"),
        (dt.timedelta(minutes=150), "INTERVAL '0 02:30:00.000' DAY(3) TO SECOND(3)"),
        (dt.timedelta(hours=48), "INTERVAL '2' DAY"),
        (dt.timedelta(seconds=1234, milliseconds=567), "'0 00:20:34.567' DAY(3) TO SECOND(3)"),
        (dt.timedelta(days=400), "INTERVAL '400 00:00:00.000' DAY(3) TO SECOND(3)"),
    ],
)
def test_windows_of_any_length(connection: Connection, length: dt.timedelta, text: str) -> None:
    stream = connection.source("bids").window(tumble("rowtime", length)).aggregate(n="COUNT(*)")
    assert text in stream.sql
    assert sum(row.n for row in stream.run()) == len(list(connection.sql("SELECT * FROM bids")))


def test_lengths_that_are_none() -> None:
    wrong: Any = 5
    with pytest.raises(ServiceError, match="a length is a timedelta or an interval of SQL, not 5"):
        tumble("rowtime", wrong)
    with pytest.raises(SqlError, match="an INTERVAL has milliseconds"):
        tumble("rowtime", dt.timedelta(microseconds=5))


def test_python_in_a_stream(connection: Connection) -> None:
    bids = connection.source("bids")
    found = (
        bids.filter(lambda price, item: (price > LIMIT and item != "b") or item == "c").map("item", more=(lambda price: price + 1, "BIGINT"), half=half)
    )  # fmt: skip
    assert [tuple(r) for r in found.run()] == [("a", 31, 15.0), ("c", 6, 2.5)]
    assert found.types == {"item": "STRING", "more": "BIGINT", "half": "DOUBLE"}
    nth = bids.key_by("item").process(Nth, uid="nth", word="Nr.").filter("item = 'a'")
    assert [tuple(r) for r in nth.run()] == [("a", "Nr. 1 of a"), ("a", "Nr. 2 of a")]


def test_words_are_counted_over_a_topic_in_five_lines(connection: Connection) -> None:
    connection.register_table("lines", iter([{"line": "to be or"}, {"line": "not to be"}])).wait()
    lines = connection.source("lines")
    counts = lines.flat_map(words).map(word="f0").key_by("word").aggregate(n="COUNT(*)")
    counts.sink("counts", job="count", create=True, key=["word"]).wait()
    found = {row.word: row.n for row in connection.sql("SELECT * FROM counts")}
    assert found == {"to": 2, "be": 2, "or": 1, "not": 1}


def test_a_sink_that_is_made_twice_is_one_job(connection: Connection) -> None:
    """So that a cell of a notebook may run again; other rows into a table that was made for these
    are no mistake only where that is said."""
    connection.register_table("tones", iter([{"tone": "c"}, {"tone": "d"}])).wait()
    tones = connection.source("tones")
    first = tones.sink("heard", create=True)
    again = tones.sink("heard", create=True)
    assert (again.name, again.info.version) == (first.name, 1)
    first.wait()
    loud = tones.map(tone="UPPER(tone)")
    with pytest.raises(ServiceError) as refused:
        loud.sink("heard", create=True)
    assert f"table 'heard' is filled by the job '{first.name}' already" in str(refused.value)
    assert f"job='{first.name}'" in str(refused.value.hint)
    assert [tuple(r) for r in connection.sql("SELECT * FROM heard")] == [("c",), ("d",)]
    beside = loud.sink("heard")
    assert beside.name != first.name
    beside.wait()
    assert len(list(connection.sql("SELECT * FROM heard"))) == 4
    replaced = loud.sink("heard", create=True, job=first.name)
    assert (replaced.name, replaced.info.version) == (first.name, 2)


def test_a_sink_leaves_a_table_that_was_renamed(connection: Connection) -> None:
    tones = connection.source("tones")
    tones.sink("before", create=True).remove()
    connection.sql("ALTER TABLE `before` RENAME TO `after`")
    tones.map(length="CHAR_LENGTH(tone)").sink("before", create=True)
    assert {"before", "after"} <= {str(row[0]) for row in connection.sql("SHOW TABLES")}


def test_what_is_refused(connection: Connection) -> None:
    bids = connection.source("bids")
    with pytest.raises(ServiceError, match="the type of a lambda's value is not known"):
        bids.map(x=lambda price: price)
    with pytest.raises(ServiceError, match="a lambda takes 'cost', which is no column"):
        bids.filter(lambda cost: cost > 1)
    with pytest.raises(ServiceError, match="there is no join 'outer'"):
        bids.join(bids, on="item", how="outer")
    with pytest.raises(SqlError, match="unknown column 'cost'"):
        bids.filter("cost > 1").run()
