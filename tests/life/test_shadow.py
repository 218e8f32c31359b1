"""A shadow: a version of a rule that runs beside the live one, writes nothing to its tables, and is
promoted or withdrawn, by a command or by its canary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from parser.canary import Canary, canary_of
from parser.errors import JobError, ParseError, SqlError
from sqlengine.access.identity import OneToken
from sqlengine.access.principals import TRUSTED, Grant, Principal, Role
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.engine.shadows.canaries import verdict
from sqlengine.jobs.job import JobState, Origin
from sqlengine.jobs.planning import JobText
from tests.engine.by_hand import EVENTS, append, die, next_life, of_job, open_engine, rows, step

FILTER = "INSERT INTO outs SELECT 'r', id FROM events WHERE id > {least}"
WINDOW = """INSERT INTO outs SELECT 'r', COUNT(*) FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' SECOND))
GROUP BY window_start, window_end HAVING COUNT(*) > {least}"""
EVERY_HOST = WINDOW.replace("GROUP BY", "GROUP BY host,")


ALICE = Principal("alice", (Grant(frozenset({Role.SUBMIT})),))


class Forgetful(OneToken):
    """The access of a server that knows nobody by name."""

    told_apart = True

    def named(self, name: str) -> Principal | None:
        return None if name else TRUSTED


def head(status: str = "shadow", canary: str = "") -> str:
    more = f"-- canary: {canary}\n" if canary else ""
    return f"-- @rule\n-- status: {status}\n{more}"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    engine = open_engine(tmp_path)
    engine.submit("tables", EVENTS)
    yield engine
    die(engine)


@pytest.fixture
def hours(engine: Engine) -> list[float]:
    """The clock of canaries, in hours."""
    return clock_of(engine)


def clock_of(engine: Engine) -> list[float]:
    hours = [0.0]
    engine.canaries._now = lambda: hours[0] * 3600
    engine.canaries.check()
    return hours


def pass_hours(engine: Engine, hours: list[float], number: float) -> None:
    """Lets canaries look at the clock before and after some hours."""
    engine.canaries.check()
    hours[0] += number
    engine.canaries.check()


def shadow_rows(engine: Engine, topic: str = "_shadow") -> list[dict[str, Any]]:
    records = engine.broker.read(topic, 0, 0)
    return [] if records is None else [json.loads(v) for v in records.values.to_pylist()]


def versions(engine: Engine) -> list[tuple[int, bool, str]]:
    return [(v.version, v.shadow, v.fate) for v in engine.history("r")]


# ---- beside the live version ---------------------------------------------------------------------


def test_a_shadow_writes_to_no_table_of_its_own_and_the_live_version_runs_on(
    engine: Engine,
) -> None:
    engine.submit("r", FILTER.format(least=10))
    outcome = engine.submit("r", head() + FILTER.format(least=5))
    append(engine, 3, 7, 12)
    step(engine)
    assert (outcome.status, outcome.version) == ("shadowed", 2)
    assert of_job(engine, "r") == [12]
    assert {(j.name, j.version, j.state) for j in engine.jobs() if j.name != "tables"} == {
        ("r", 1, JobState.RUNNING),
        ("r@shadow", 2, JobState.RUNNING),
    }
    first, *_ = found = shadow_rows(engine)
    assert [r["row"] for r in found] == [{"job": "r", "n": 7}, {"job": "r", "n": 12}]
    assert first.items() >= {"rule": "r", "version": 2, "table": "outs", "kind": "+I"}.items()
    assert first["epoch"] == engine.graph.runner.epoch
    assert [r["row"]["n"] for r in shadow_rows(engine, "_shadow_live")] == [12]


@pytest.mark.parametrize("text", [FILTER, WINDOW])
def test_only_the_rows_of_a_shadow_count_for_it(engine: Engine, text: str) -> None:
    """Neither those that the live version gives beside it, nor those of a shadow before it."""
    engine.submit("r", text.format(least=2))
    engine.submit("r", head() + text.format(least=1))
    append(engine, 2, 3, 4, 5000, 6000, 6001, 7001, 9000)
    step(engine)
    assert engine.counts()["r@shadow"].rows == len(shadow_rows(engine)) > 0
    assert engine.counts()["r"].rows == len(of_job(engine, "r")) > 0
    engine.promote("r")
    engine.submit("r", head() + text.format(least=100_000))
    step(engine)
    assert engine.counts()["r@shadow"].rows == engine.rows_by_job()["r@shadow"] == 0


def test_equal_parts_are_one(engine: Engine) -> None:
    """A shadow with the text of the live version adds two projections with their ends to the graph, and no operator."""
    engine.submit("r", WINDOW.format(least=0))
    nodes, operators = len(engine.graph.runner.graph.nodes), set(engine.graph.executor.running)
    outcome = engine.submit("r", head() + WINDOW.format(least=0))
    assert [s.outcome for s in outcome.state] == ["kept"]
    assert len(engine.graph.runner.graph.nodes) == nodes + 4
    assert set(engine.graph.executor.running) == operators
    told = engine.explain("r@shadow")
    assert (
        "WindowAggregate by window_start, window_end: COUNT(*) AS aggregate$0  [shared with r]"
        in told
    )
    assert "outs (shadows) (_shadow)" in told


def test_a_shadow_begins_with_the_state_of_the_live_version(engine: Engine) -> None:
    """So that windows that are open compare fairly; where its own operation is another it says so."""
    engine.submit("r", WINDOW.format(least=0))
    append(engine, 100, 200)
    step(engine)
    engine.submit("r", head() + WINDOW.format(least=1))
    append(engine, 300, 1100)
    step(engine)
    assert [r["row"]["n"] for r in shadow_rows(engine)] == of_job(engine, "r") == [3]
    outcome = engine.submit("r", head() + EVERY_HOST.format(least=1))
    assert outcome.state[0].outcome == "new"


def test_a_shadow_without_a_live_version_runs_alone_and_becomes_it(engine: Engine) -> None:
    assert engine.submit("r", head() + FILTER.format(least=5)).version == 1
    append(engine, 7)
    step(engine)
    assert (rows(engine), len(shadow_rows(engine))) == ([], 1)
    assert "_shadow_live" not in engine.broker.topic_names()
    assert engine.promote("r").status == "promoted"
    append(engine, 8)
    step(engine)
    assert of_job(engine, "r") == [8]


def test_another_shadow_replaces_the_first(engine: Engine) -> None:
    engine.submit("r", FILTER.format(least=10))
    engine.submit("r", head() + FILTER.format(least=5))
    assert engine.submit("r", head() + FILTER.format(least=6)).version == 3
    assert engine.submit("r", head() + FILTER.format(least=6)).status == "unchanged"
    append(engine, 6, 7)
    step(engine)
    assert [(r["version"], r["row"]["n"]) for r in shadow_rows(engine)] == [(3, 7)]
    assert versions(engine)[1:] == [(2, True, "replaced by another shadow"), (3, True, "")]


def test_a_live_text_ends_the_shadow(engine: Engine) -> None:
    engine.submit("r", FILTER.format(least=10))
    engine.submit("r", head() + FILTER.format(least=5))
    assert engine.submit("r", FILTER.format(least=7)).version == 3
    assert "r@shadow" not in engine.log.jobs
    assert versions(engine)[1] == (2, True, "a version was submitted as live")


@pytest.mark.parametrize("remove", ["r", "r@shadow"])
def test_a_shadow_is_withdrawn_alone_or_with_its_rule(engine: Engine, remove: str) -> None:
    engine.submit("r", FILTER.format(least=10))
    engine.submit("r", head() + FILTER.format(least=5))
    assert engine.remove(remove).status == "removed"
    assert {j.name for j in engine.jobs()} == {"tables", *({"r"} - {remove})}
    assert versions(engine)[1][2] in ("withdrawn by sdk", "the live version was renamed or removed")


def test_a_definition_that_changes_ends_the_shadows_over_it(engine: Engine) -> None:
    engine.submit("r", FILTER.format(least=10))
    engine.submit("r", head() + FILTER.format(least=5))
    engine.submit("tables", EVENTS.replace("host STRING", "host STRING, more STRING"))
    assert versions(engine)[1] == (
        2,
        True,
        "the live version was planned anew, over other definitions",
    )
    assert engine.job("r").version == 3


def test_a_shadow_and_a_definition_may_come_together(engine: Engine) -> None:
    engine.submit("r", FILTER.format(least=10))
    texts = {
        "tables": EVENTS.replace("host STRING", "host STRING, more STRING"),
        "r": head() + FILTER.format(least=5),
    }
    asked = Request(Origin.SDK, {n: JobText(n, t) for n, t in texts.items()})
    assert {n: o.status for n, o in engine.change(asked).items()} == {
        "tables": "replaced",
        "r": "shadowed",
    }
    append(engine, 7, 12)
    step(engine)
    (table,) = engine.difference("r").tables
    assert (table.both, table.added, table.left_out) == (1, 1, 0)
    assert [v.version for v in engine.history("r")] == [1, 2, 3]


def test_what_cannot_be_a_shadow_is_refused_and_the_one_that_is_there_runs_on(
    engine: Engine,
) -> None:
    engine.submit("r", FILTER.format(least=10))
    engine.submit("r", head() + FILTER.format(least=5))
    own = "CREATE TABLE mine (id BIGINT) WITH ('connector' = 'blackhole');"
    for text, reason in {
        own + "INSERT INTO mine SELECT id FROM events": "a shadow cannot define 'mine'",
        "INSERT INTO outs SELECT 'r', id FROM events WHERE REGEXP(host, '(')": "invalid regular",
    }.items():
        with pytest.raises(SqlError, match=reason):
            engine.submit("r", head() + text)
    with pytest.raises(JobError, match="no live version to compare with"):
        engine.submit("new", head(canary="1h, max-rate 2x") + FILTER.format(least=1))
    with pytest.raises(SqlError, match="unknown connector '_shadow'"):
        engine.submit("t", own.replace("blackhole", "_shadow"))
    assert engine.job("r@shadow").version == 2


# ---- the difference ------------------------------------------------------------------------------


def test_the_difference_has_what_a_shadow_adds_and_leaves_out(engine: Engine) -> None:
    engine.submit("r", "INSERT INTO outs SELECT 'r', id FROM events WHERE id > 5")
    engine.submit(
        "r", head() + "INSERT INTO outs SELECT 'r', id FROM events WHERE id BETWEEN 3 AND 8"
    )
    assert engine.difference("r").tables == ()
    append(engine, *range(12))
    step(engine)
    found = engine.difference("r")
    assert (found.version, found.live, found.complete) == (2, 1, True)
    (table,) = found.tables
    assert (table.table, table.both, table.added, table.left_out) == ("outs", 3, 3, 3)
    assert [s.row["n"] for s in table.added_samples] == [3, 4, 5]
    assert [s.row["n"] for s in table.left_out_samples] == [9, 10, 11]


def test_columns_that_differ_by_nature_are_not_compared(engine: Engine) -> None:
    text = "INSERT INTO outs SELECT UUID(), id FROM events WHERE id > {least}"
    engine.submit("r", text.format(least=5))
    engine.submit("r", head() + text.format(least=6))
    append(engine, 6, 7)
    step(engine)
    (table,) = engine.difference("r").tables
    assert (table.both, table.added, table.left_out, table.ignored) == (1, 0, 1, ("job",))


def test_corrections_of_rows_are_compared(engine: Engine) -> None:
    counts = """CREATE TABLE counts (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
    WITH ('connector' = 'topic', 'topic' = 'counts', 'upsert' = 'true', 'format' = 'json')"""
    engine.broker.create_topic("counts")
    engine.submit("counts", counts)
    text = "INSERT INTO counts SELECT host, COUNT(*) FROM events WHERE id <> {but} GROUP BY host"
    engine.submit("r", text.format(but=-1))
    engine.submit("r", head() + text.format(but=4))
    for number in (1, 4, 7):
        append(engine, number)
        step(engine)
    (table,) = engine.difference("r").tables
    assert (table.both, table.added, table.left_out) == (2, 0, 1)


# ---- promotion -----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [FILTER, WINDOW])
def test_promotion_loses_no_row_and_doubles_none(engine: Engine, text: str) -> None:
    """Of a shadow that computes what the live version does."""
    engine.submit("r", text.format(least=0))
    append(engine, 100, 200)
    step(engine)
    engine.submit("r", head() + text.format(least=0))
    append(engine, 300, 1100)
    step(engine)
    assert engine.promote("r").version == 2
    append(engine, 1200, 2500, 3500)
    step(engine)
    expected = [3, 2, 1] if text is WINDOW else [100, 200, 300, 1100, 1200, 2500, 3500]
    assert of_job(engine, "r") == expected
    assert {j.name: j.version for j in engine.jobs()} == {"r": 2, "tables": 1}
    assert versions(engine) == [(1, False, ""), (2, True, "promoted by sdk")]
    assert engine.submit("r", head() + text.format(least=0)).status == "unchanged"
    assert engine.promote("r").status == "unchanged"  # asked again


def test_promotion_keeps_the_state_of_the_shadow(engine: Engine) -> None:
    """Of operations that the live version does not have."""
    engine.submit("r", WINDOW.format(least=0))
    engine.submit("r", head() + EVERY_HOST.format(least=0))
    append(engine, 300, 600, 601)
    step(engine)
    assert engine.promote("r").state[0].outcome == "kept"
    append(engine, 1500)
    step(engine)
    assert sorted(map(str, of_job(engine, "r"))) == ["1", "2"]


def test_a_shadow_over_a_live_version_that_does_not_run_cannot_be_promoted(engine: Engine) -> None:
    engine.submit("r", FILTER.format(least=10))
    engine.submit("r", head() + FILTER.format(least=5))
    engine.stop_job("r")
    with pytest.raises(JobError, match="cannot become live now") as caught:
        engine.promote("r")
    assert "the live version is stopped" in (caught.value.detail or "")
    with pytest.raises(JobError, match="job 'tables' has no shadow"):
        engine.promote("tables")
    engine.start_job("r")
    assert engine.promote("r").status == "promoted"


def test_a_rollback_is_live_at_once(engine: Engine) -> None:
    engine.submit("r", FILTER.format(least=10))
    engine.submit("r", head() + FILTER.format(least=5))
    engine.promote("r")
    engine.rollback("r", 1)
    assert engine.rollback("r", 2).status == "replaced"
    assert (engine.job("r").version, "r@shadow" in engine.log.jobs) == (4, False)


def test_a_rollback_by_the_name_of_a_shadow_is_one_of_its_rule(engine: Engine) -> None:
    engine.submit("r", FILTER.format(least=10))
    engine.submit("r", head() + FILTER.format(least=5))
    assert engine.rollback("r@shadow", 1).status == "unchanged"
    engine.promote("r")
    outcome = engine.rollback("r@shadow", 1)
    assert (outcome.name, outcome.status, outcome.version) == ("r", "replaced", 3)
    with pytest.raises(JobError, match="has no version 7"):
        engine.rollback("r@shadow", 7)


def test_shadows_survive_a_death(engine: Engine, tmp_path: Path) -> None:
    """With what they share, with what they have, and with what has become of them."""
    engine.submit("r", WINDOW.format(least=0))
    append(engine, 100, 200)
    step(engine)
    engine.submit("r", head() + EVERY_HOST.format(least=0))
    append(engine, 300, 301)
    step(engine)
    nodes = set(engine.graph.runner.graph.nodes)
    with ExitStack() as lives:
        for checkpoint in (False, True):
            if checkpoint:
                engine.graph.runner.checkpoint(wait=True)
            die(engine)
            engine = lives.enter_context(next_life(engine))
            assert set(engine.graph.runner.graph.nodes) == nodes
        engine.promote("r")
        die(engine)
        engine = lives.enter_context(next_life(engine))
        append(engine, 1500)
        step(engine)
        assert of_job(engine, "r") == [1, 1]
        assert versions(engine)[1] == (2, True, "promoted by sdk")


# ---- canaries ------------------------------------------------------------------------------------


def test_a_canary_within_its_bounds_becomes_live(engine: Engine, hours: list[float]) -> None:
    engine.submit("r", FILTER.format(least=10))
    text = head("live", canary="2h, max-rate 2x") + FILTER.format(least=5)
    assert engine.submit("r", text).status == "shadowed"
    append(engine, *range(20))
    step(engine)
    pass_hours(engine, hours, 1.9)
    assert engine.job("r").version == 1
    pass_hours(engine, hours, 0.2)
    reason = "promoted by its canary: 14 rows in 2 h, 9 of the live version"
    assert versions(engine) == [(1, False, ""), (2, True, reason)]
    assert (engine.job("r").version, "r@shadow" in engine.log.jobs) == (2, False)


def test_a_canary_of_somebody_who_is_not_known_any_more_stays_a_shadow(
    engine: Engine, hours: list[float]
) -> None:
    engine.submit("r", FILTER.format(least=10))
    engine.submit("r", head(canary="1h") + FILTER.format(least=5), by=ALICE)
    engine._registry.access = Forgetful()
    pass_hours(engine, hours, 2)
    assert (engine.job("r").version, "r@shadow" in engine.log.jobs) == (1, True)


def test_a_canary_is_rolled_back_as_soon_as_it_is_out_of_bounds(
    engine: Engine, hours: list[float]
) -> None:
    engine.submit("r", FILTER.format(least=10))
    text = head(canary="1h, max-rate 2x") + FILTER.format(least=-1)
    engine.submit("r", text)
    append(engine, *range(20), *[0] * 40)
    step(engine)
    pass_hours(engine, hours, 0.1)
    assert engine.job("r@shadow").version == 2
    pass_hours(engine, hours, 0.4)
    reason = (
        "rolled back by its canary: 60 rows in 30 min, more than 2 times the 9 of the live version,"
        " which count as 10, at that rate until 1 h"
    )
    assert versions(engine) == [(1, False, ""), (2, True, reason)]
    assert (engine.job("r").version, "r@shadow" in engine.log.jobs) == (1, False)
    append(engine, 12)
    step(engine)
    assert of_job(engine, "r")[-1:] == [12]
    # The watched folder brings the text with every start; a person means it.
    folder = Request(Origin.FOLDER, {"r": JobText("r", text)})
    assert engine.change(folder)["r"].status == "unchanged"
    assert engine.submit("r", text).status == "shadowed"


def test_the_time_of_a_canary_survives_a_death(engine: Engine, hours: list[float]) -> None:
    engine.submit("r", head(canary="1h, max-rate 100/h") + FILTER.format(least=5))
    pass_hours(engine, hours, 0.75)
    die(engine)
    with next_life(engine) as risen:
        hours = clock_of(risen)
        hours[0] += 0.2
        risen.canaries.check()
        assert "r" not in risen.log.jobs
        pass_hours(risen, hours, 0.1)
        assert versions(risen) == [(1, True, "promoted by its canary: 0 rows in 1 h")]


def test_the_time_of_a_canary_stands_while_the_live_version_does(
    engine: Engine, hours: list[float]
) -> None:
    engine.submit("r", FILTER.format(least=10))
    engine.submit("r", head(canary="1h") + FILTER.format(least=5))
    engine.stop_job("r")
    pass_hours(engine, hours, 2)
    assert engine.job("r@shadow").ran_ms == 0
    engine.start_job("r")
    pass_hours(engine, hours, 1)
    assert engine.job("r").version == 2


MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "canary"),
    {
        "1h": Canary(MS),
        "90 minutes": Canary(MS * 3 // 2),
        "1d, max-rate 2x": Canary(24 * MS, ratio=2),
        "1h,max-rate 1.5x": Canary(MS, ratio=1.5),
        "30 min, max-rate 100/h": Canary(MS // 2, per_ms=100 / MS),
        "2 days, max-rate 5 / min": Canary(48 * MS, per_ms=5 / 60_000),
    }.items(),
)
def test_forms_of_canaries(text: str, canary: Canary) -> None:
    assert canary_of(text) == canary


@pytest.mark.parametrize(
    "text", ["", "soon", "1 y", "0h", "1h, max-rate", "1h, max-rate 0x", "1h, rate 2x", "1h, 2x", "1h max-rate 2x"]
)  # fmt: skip
def test_other_canaries_are_refused(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        canary_of(text)
    assert "1h, max-rate 2x" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("canary", "shadow", "live", "ran", "promoted"),
    [
        ("1h", 10**6, 0, 0.9, None),
        ("1h", 10**6, 0, 1.0, True),
        ("1h, max-rate 2x", 20, 0, 1.0, True),  # fewer than 10 rows count as 10
        ("1h, max-rate 2x", 21, 0, 1.0, False),
        ("1h, max-rate 2x", 201, 100, 1.0, False),
        ("1h, max-rate 2x", 201, 100, 0.5, None),  # the live version may give 200 yet
        ("1h, max-rate 2x", 401, 100, 0.5, False),
        ("2h, max-rate 100/h", 200, 0, 0.1, None),
        ("2h, max-rate 100/h", 201, 0, 0.1, False),  # for certain
        ("2h, max-rate 100/h", 200, 0, 2.0, True),
    ],
)
def test_verdicts(canary: str, shadow: int, live: int, ran: float, promoted: bool | None) -> None:
    found = verdict(canary_of(canary), shadow, live, ran * MS)
    assert (None if found is None else found.promoted) is promoted


@pytest.mark.parametrize(
    ("canary", "most", "bound"),
    [("1h, max-rate 1/h", 1, "1 in 1 h"), ("20s, max-rate 1000/h", 5, "5 in 20 s")],
)
def test_a_canary_may_give_what_its_rate_says(canary: str, most: int, bound: str) -> None:
    found = canary_of(canary)
    assert verdict(found, most, 0, 1_000) is None
    broken = verdict(found, most + 1, 0, 1_000)
    assert broken is not None
    assert broken.reason == (
        f"rolled back by its canary: {most + 1} rows in 1 s, more than {bound}"
    )
