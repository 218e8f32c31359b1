"""Which jobs run as one family: by what they differ in."""

from __future__ import annotations

import pytest

from parser import parse
from parser.statements import Insert
from planner import bind
from planner.catalog import Catalog, Table
from planner.graph.families import with_families
from planner.graph.merge import Graph, merge
from planner.graph.physical import lower
from tests.families.shapes import SHAPES, SIZES, TABLES, lengths
from tests.planning import optimized

TUMBLE = SHAPES["tumble"]
JOIN = SHAPES["near"]
TOP = SHAPES["top"]
PATTERN = SHAPES["pattern"]
SUM = """INSERT INTO outs SELECT '{name}', host, SUM(CASE WHEN id > 3 THEN id * 2 ELSE 0 END) FROM
    TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND)) WHERE {where}
    GROUP BY window_start, window_end, host"""
TOGETHER = [
    *((text, text) for text in SHAPES.values()),
    (SUM, SUM.replace("> 3", "> 4").replace("* 2", "* 5")),
    (TOP, TOP.replace("{more}", "9")),
]
APART = [
    (TUMBLE, TUMBLE.replace("DESCRIPTOR(ts)", "DESCRIPTOR(come)")),
    (TUMBLE, TUMBLE.replace("MAX", "MIN").replace("window_end, host", "window_end, host, id")),
    (TUMBLE, TUMBLE.replace("WHERE {where}", "")),
    (SUM, SUM.replace("ELSE 0", "ELSE 1")),
    (TOP, TOP.replace("<= {more}", "= 1")),
    (TOP, TOP.replace("id DESC", "id")),
    (JOIN, JOIN.replace("'0.5' SECOND", "'0.6' SECOND")),
    (JOIN, JOIN.replace(" JOIN ", " LEFT JOIN ")),
    (PATTERN, PATTERN.replace("(A B)", "(A B{{2}})")),
]
# Jobs that never run with others.
ALONE = [
    "INSERT INTO totals SELECT '{name}', 'all', n FROM (SELECT COUNT(*) AS n FROM events WHERE {where})",
    """INSERT INTO totals SELECT '{name}', o.host, a.id FROM (SELECT * FROM events WHERE {where}) AS a
    FULL JOIN owners AS o ON a.host = o.host""",
    """INSERT INTO outs SELECT '{name}', host, COUNT(*) FROM (SELECT *, RAND() AS chance FROM events
    WHERE {where}) WHERE chance > 0.5 GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), host""",
    SHAPES["pattern"].replace("PARTITION BY host", "").replace("host, a", "'', a"),
]


def catalog() -> Catalog:
    """The tables of lives."""
    known = Catalog()
    for statement in parse(TABLES):
        bound = bind(statement, known, {})
        assert isinstance(bound, Table)
        known = known.put(bound)
    return known


def together(*texts: str) -> int:
    """Returns how many operations with state of these jobs run in families."""
    graph, known = Graph(), catalog()
    for number, text in enumerate(texts):
        sql = text.format(
            name=f"j{number}",
            where=f"host <> 'h{number}'",
            least=number,
            more=number + 2,
            **lengths(list(SIZES)[number]),
        )
        (statement,) = parse(sql)
        assert isinstance(statement, Insert)
        graph = merge(graph, {f"j{number}": [optimized(statement, known, job=f"j{number}")]})
    return len(with_families(lower(graph)).member_of)


@pytest.mark.parametrize(("one", "other"), TOGETHER)
def test_jobs_run_as_one(one: str, other: str) -> None:
    assert together(one, other) >= 2


@pytest.mark.parametrize(("one", "other"), [*APART, *((text, text) for text in ALONE)])
def test_jobs_run_by_themselves(one: str, other: str) -> None:
    assert one != other or one in ALONE
    assert together(one, other) == 0
