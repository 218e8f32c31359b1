"""Which jobs run as one family: by what they differ in."""

from __future__ import annotations

import random

import pytest

from parser import parse
from parser.statements import Insert, Set
from planner import bind
from planner.catalog import Catalog, Table
from planner.graph.families import ALONE as NO_FAMILIES
from planner.graph.families import with_families
from planner.graph.merge import Graph, merge
from planner.graph.physical import PhysicalPlan, lower
from planner.logical import Sink
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
        graph = merge(graph, {f"j{number}": [sink(known, text, f"j{number}", number)]})
    return len(with_families(lower(graph)).member_of)


def sink(known: Catalog, text: str, job: str, number: int) -> Sink:
    """Plans the text of a job with literals that follow a number."""
    sql = text.format(
        name=job,
        where=f"host <> 'h{number}'",
        least=number,
        more=number + 2,
        **lengths(list(SIZES)[number]),
    )
    *heads, statement = parse(sql)
    settings = {s.key or "": s.value or "" for s in heads if isinstance(s, Set)}
    assert isinstance(statement, Insert)
    planned = optimized(statement, known, settings, job=job)
    assert isinstance(planned, Sink)
    return planned


@pytest.mark.parametrize(("one", "other"), TOGETHER)
def test_jobs_run_as_one(one: str, other: str) -> None:
    assert together(one, other) >= 2


@pytest.mark.parametrize(("one", "other"), [*APART, *((text, text) for text in ALONE)])
def test_jobs_run_by_themselves(one: str, other: str) -> None:
    assert one != other or one in ALONE
    assert together(one, other) == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_that_followed_changes_is_that_made_at_once(seed: int) -> None:
    """Jobs come, change and go, and families are taken apart and made again."""
    chance, known = random.Random(seed), catalog()
    texts = chance.sample([*SHAPES.values(), SUM, *ALONE], 3)
    # Some jobs have no condition, so that nodes in front of their states have other readers, too.
    texts += [text.replace("WHERE {where}", "") for text in texts[:2]]
    graph, plan, run, apart = Graph(), PhysicalPlan(), NO_FAMILIES, set[str]()
    sizes = set[int]()
    for _ in range(30):
        job, number = f"j{chance.randrange(10)}", chance.randrange(3)
        gone = job in graph.jobs and chance.random() < 0.3
        changed = None if gone else [sink(known, chance.choice(texts), job, number)]
        graph = merge(graph, {job: changed})
        plan = lower(graph, plan)
        if chance.random() < 0.2:
            apart ^= set(chance.sample(sorted(run.found.alike), min(1, len(run.found.alike))))
        run = with_families(plan, run, apart, enabled=chance.random() < 0.9)
        at_once = (
            with_families(plan, apart=apart)
            if run.found.plan is plan
            else with_families(plan, enabled=False)
        )
        assert run.plan.nodes == at_once.plan.nodes
        assert (run.families, run.member_of) == (at_once.families, at_once.member_of)
        assert run.nodes == at_once.nodes
        sizes.add(len(run.member_of))
    assert len(sizes) > 2
