"""What becomes of a job's state when its text changes: told by a dry run, done by the change, and
done again after a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from parser.errors import JobError, OptionError
from sqlengine.engine import Engine
from sqlengine.engine.requests import Request
from sqlengine.jobs.job import Origin
from sqlengine.jobs.planning import JobText
from tests.engine.by_hand import EVENTS, append, die, open_engine, rows, step

TABLES = EVENTS.split("CREATE TABLE outs")[0] + "".join(
    f"""CREATE TABLE {name} (host STRING, n BIGINT, PRIMARY KEY (host) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = '{name}', 'format' = 'json', 'upsert' = 'true');"""
    for name in ("a", "b")
)
COUNT = "INSERT INTO a SELECT host, COUNT(*) FROM events WHERE id > {} GROUP BY host"
TWO_LEVELS = """INSERT INTO a SELECT CAST(n AS STRING), COUNT(*) FROM
(SELECT host, COUNT(*) AS n FROM events GROUP BY host) WHERE n > {} GROUP BY CAST(n AS STRING)"""


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    opened = open_engine(tmp_path)
    for name in ("a", "b"):
        opened.broker.create_topic(name)
    opened.submit("tables", TABLES)
    return opened


def counts(engine: Engine, topic: str = "a") -> list[object]:
    """What was written for host h0, in order."""
    return [n for _, n in rows(engine, topic)]


def told(engine: Engine, text: str) -> list[tuple[str, str, str]]:
    return [
        (s.operator.split(" ")[0], s.outcome, s.reason) for s in engine.validate("a", text).state
    ]


def change(engine: Engine, text: str) -> list[tuple[str, str, str]]:
    """What a dry run reports is what the change reports."""
    foretold = engine.validate("a", text).state
    assert engine.submit("a", text).state == foretold
    return [(s.operator.split(" ")[0], s.outcome, s.reason) for s in foretold]


def test_state_below_a_changed_operation_is_kept_and_above_it_is_reset(engine: Engine) -> None:
    engine.submit("a", TWO_LEVELS.format(1))
    found = [(operator, outcome) for operator, outcome, _ in change(engine, TWO_LEVELS.format(2))]
    assert found == [("GroupAggregate", "kept"), ("GroupAggregate", "reset"), ("the", "left")]
    reason = engine.validate("a", TWO_LEVELS.format(7)).state[1].reason
    assert "Filter" in reason, reason
    assert "> 2" in reason, reason
    assert "> 7" in reason, reason
    engine.close()


@pytest.mark.parametrize(("policy", "after"), [("auto", 1), ("keep", 3), ("reset", 1)])
def test_a_changed_filter(engine: Engine, tmp_path: Path, policy: str, after: int) -> None:
    engine.submit("a", COUNT.format(0))
    append(engine, 3, 6)
    step(engine)
    report = change(engine, f"SET 'job.state' = '{policy}';" + COUNT.format(1))
    assert report[0][1] == ("kept" if policy == "keep" else "reset")
    append(engine, 9)
    step(engine)
    assert counts(engine) == [2, after]
    die(engine)  # no checkpoint was made: the change is repeated
    again = open_engine(tmp_path)
    append(again, 12)
    step(again)
    assert counts(again) == [2, after, after + 1]
    again.close()
    last = open_engine(tmp_path)  # from a checkpoint
    append(last, 15)
    step(last)
    assert counts(last)[-1] == after + 2
    last.close()


def test_reset_without_another_change_is_told(engine: Engine) -> None:
    engine.submit("a", COUNT.format(0))
    assert told(engine, COUNT.format(0) + " ") == [
        ("GroupAggregate", "kept", "nothing has changed below it")
    ]
    text = "SET 'job.state' = 'reset';" + COUNT.format(0)
    assert told(engine, text)[0] == ("GroupAggregate", "reset", "'job.state' is 'reset'")
    engine.close()


def test_state_that_cannot_be_read_is_reset_though_it_should_be_kept(engine: Engine) -> None:
    engine.submit("a", COUNT.format(0))
    other = COUNT.format(0).replace("COUNT(*)", "MAX(ms)")
    outcome, reason = told(engine, "SET 'job.state' = 'keep';" + other)[0][1:]
    assert outcome == "reset"
    assert "it was 'GroupAggregate by host: COUNT(*)" in reason
    ttl = "SET 'job.state' = 'keep'; SET 'table.exec.state.ttl' = '1 h';" + COUNT.format(0)
    outcome, reason = told(engine, ttl)[0][1:]
    assert outcome == "reset"
    assert reason.startswith("its state has other columns: (host STRING -> ")
    assert "#touched" in reason.split("is now")[1]
    engine.close()


def test_windows_of_another_size_are_not_kept(engine: Engine) -> None:
    text = """CREATE TEMPORARY TABLE nowhere (t TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO nowhere SELECT window_start, COUNT(*)
FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '{}' SECOND)) WHERE id > {} GROUP BY window_start, window_end"""
    engine.submit("a", text.format(1, 0))
    keep = "SET 'job.state' = 'keep';"
    assert told(engine, keep + text.format(1, 5))[0][1] == "kept"
    outcome, reason = told(engine, keep + text.format(2, 0))[0][1:]
    assert outcome == "reset"
    assert "TUMBLE(ts, 1000 ms)' is now 'WindowAssign TUMBLE(ts, 2000 ms)'" in reason
    engine.close()


def test_a_job_that_shared_its_state_takes_a_copy(engine: Engine) -> None:
    texts = {n: JobText(n, COUNT.format(0).replace("INTO a", f"INTO {n}")) for n in ("a", "b")}
    engine.change(Request(Origin.SDK, texts))
    append(engine, 3)
    step(engine)
    change(engine, "SET 'job.state' = 'keep';" + COUNT.format(1))
    append(engine, 6)
    step(engine)
    assert (counts(engine)[-1], counts(engine, "b")[-1]) == (2, 2)
    engine.submit("a", "SET 'job.state' = 'keep';" + COUNT.format(2))
    append(engine, 9)
    step(engine)
    assert (counts(engine)[-1], counts(engine, "b")[-1]) == (3, 3)
    engine.close()


def test_jobs_of_one_change_do_not_share_what_only_one_of_them_has(engine: Engine) -> None:
    engine.submit("a", COUNT.format(0))
    texts = {
        n: JobText(n, "SET 'job.state' = 'keep';" + COUNT.format(1).replace("INTO a", f"INTO {n}"))
        for n in ("a", "b")
    }
    outcomes = engine.change(Request(Origin.SDK, texts))
    assert {o.status for o in outcomes.values()} == {"refused"}
    assert isinstance(outcomes["b"].error, JobError)
    assert "share state" in outcomes["b"].error.message
    engine.close()


def test_another_value_is_refused(engine: Engine) -> None:
    with pytest.raises(OptionError, match="cannot be 'hold'"):
        engine.submit("a", "SET 'job.state' = 'hold';" + COUNT.format(0))
    engine.close()
