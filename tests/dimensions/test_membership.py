"""IN, NOT IN and EXISTS as of processing time: look-ups of which only the answer counts, in rows in
state as in mapped files."""

from __future__ import annotations

from pathlib import Path

import pytest

from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from tests.sql.golden import Collected

EVENTS = ["a 1", "b 2", " 3", "c 4", "a 5"]
# id, ip, level: the last row of an id counts among those with the ip that is asked for.
LISTED = ["1 a 1", "2 a 7", "3 c 1", "3 c 7", "4 d 9"]
TABLES = """
CREATE TABLE events (ip STRING, n INT, now AS PROCTIME()) WITH (
  'connector' = 'filesystem', 'path' = '{folder}/events.csv', 'format' = 'csv',
  'csv.field-delimiter' = ' ', 'csv.null-literal' = '');
CREATE TABLE listed (id INT, ip STRING{nullable}, level INT, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'filesystem', 'path' = '{folder}/listed.csv', 'format' = 'csv',
  'csv.field-delimiter' = ' ', 'lookup.cache' = '{cache}');
"""
# Conditions, and the numbers of the events for which they are TRUE.
ASKED = {
    "ip IN (SELECT ip FROM listed FOR SYSTEM_TIME AS OF e.now)": [1, 4, 5],
    "n > 1 AND ip IN (SELECT ip FROM listed FOR SYSTEM_TIME AS OF e.now WHERE level < 5)": [4, 5],
    "EXISTS (SELECT 1 FROM listed FOR SYSTEM_TIME AS OF e.now AS l"
    " WHERE l.ip = e.ip AND l.level = e.n + 2)": [5],
    "NOT EXISTS (SELECT 1 FROM listed FOR SYSTEM_TIME AS OF e.now AS l"
    " WHERE l.ip = e.ip AND l.level > 1)": [2, 3],
    "COALESCE(ip, '-') NOT IN (SELECT ip FROM listed FOR SYSTEM_TIME AS OF e.now)": [2, 3],
    "NOT (n = 2 OR EXISTS (SELECT 1 FROM listed FOR SYSTEM_TIME AS OF e.now AS l"
    " WHERE l.ip = e.ip AND level > 100))": [1, 3, 4, 5],
}


def run(folder: Path, cache: str, *queries: str, nullable: bool = False) -> Collected:
    """Runs queries over both tables; statement 2 is the first of them."""
    (folder / "events.csv").write_text("\n".join(EVENTS) + "\n")
    (folder / "listed.csv").write_text("\n".join(LISTED) + "\n")
    text = TABLES.format(folder=folder, cache=cache, nullable="" if nullable else " NOT NULL")
    text += ";\n".join(queries) + ";"
    collected = Collected(text)
    with open_runner(folder / "data") as runner:
        Session(runner, collected, settings={}).run(text)
    return collected


@pytest.mark.parametrize("cache", ["NONE", "FULL"])
def test_only_the_answer_counts(cache: str, tmp_path: Path) -> None:
    asked = list(ASKED)
    collected = run(tmp_path, cache, *(f"SELECT n FROM events AS e WHERE {c}" for c in asked))
    assert not collected.messages
    found: dict[str, list[int]] = {c: [] for c in asked}
    for event in collected.events:
        if event["kind"] == "row":
            found[asked[event["stmt"] - 2]].append(event["row"][0])
    assert found == ASKED


@pytest.mark.parametrize("cache", ["NONE", "FULL"])
def test_a_row_that_is_taken_back_takes_back_its_answer(cache: str, tmp_path: Path) -> None:
    collected = run(
        tmp_path,
        cache,
        "SELECT ip, c FROM (SELECT ip, COUNT(*) AS c, PROCTIME() AS now FROM events GROUP BY ip)"
        " AS e WHERE NOT EXISTS (SELECT 1 FROM listed FOR SYSTEM_TIME AS OF e.now AS l"
        " WHERE l.ip = e.ip AND l.level < e.c)",
    )
    assert not collected.messages
    rows = [(e["op"], *e["row"]) for e in collected.events if e["kind"] == "row"]
    assert rows == [
        ("+I", "a", 1),
        ("+I", "b", 1),
        ("+I", None, 1),
        ("+I", "c", 1),
        ("-U", "a", 1),
    ]


def test_what_is_more_than_a_look_up_is_refused(tmp_path: Path) -> None:
    collected = run(
        tmp_path,
        "NONE",
        "SELECT n FROM events AS e WHERE ip NOT IN"
        " (SELECT ip FROM listed FOR SYSTEM_TIME AS OF e.now)",
        "SELECT n, ip IN (SELECT ip FROM listed FOR SYSTEM_TIME AS OF e.now) FROM events AS e",
        "SELECT n FROM events AS e WHERE ip IN"
        " (SELECT ip FROM listed FOR SYSTEM_TIME AS OF e.now GROUP BY ip)",
        nullable=True,
    )
    nulls, value, grouped = collected.messages
    assert "write NOT EXISTS" in nulls
    assert "FOR SYSTEM_TIME AS OF here is not supported" in value
    assert "one to a table, and not to a query" in grouped
