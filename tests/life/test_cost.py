"""`sql jobs --cost`: what each rule costs, and which of its conditions most."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sqlengine.access.access_file import BadAccessFile, read_rules
from sqlengine.access.principals import Budget, Exceeded
from sqlengine.engine.views.slowest_conditions import SlowestConditions
from sqlengine.engine.watch import budgets
from sqlengine.jobs.budget_settings import budget_in
from sqlengine.service import Service
from tests.cli.conftest import Sql
from tests.service.harness import WINDOW, User, rule, running
from tests.support import eventually

DEAR = "CHAR_LENGTH(REGEXP_REPLACE(REPEAT(word, 20), '[aeiou]+', '')) > 100"
RULES = 12  # more than so many that their limits are looked at together


@pytest.fixture(scope="module")
def service_and_user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, User]]:
    """A server with rules that share all they can, a dear one, one that writes each event, and a
    window; all have read the same events."""
    with running(tmp_path_factory.mktemp("cost") / "data") as (service, user):
        user.prepare()
        for n in range(RULES):
            user.submit(f"plain{n}", rule(f"plain{n}", f"word = 'w{n}'"))
        user.submit("dear", rule("dear", f"amount >= 0 AND {DEAR}"))
        user.submit("noisy", rule("noisy", "amount >= 0"))
        user.submit("window", WINDOW)
        for _ in range(4):
            rows = [{"id": i, "word": f"w{i % 50} aeiou", "amount": i} for i in range(2000)]
            user.write("events", *rows)
            user.write("timed", *({"id": i, "ts": f"2026-01-31 12:00:{i:02}"} for i in range(60)))
        eventually(lambda: costs(user)["noisy"]["events"] == 8000)
        eventually(lambda: costs(user)["window"]["events"] == 240)
        yield service, user


@pytest.fixture
def service(service_and_user: tuple[Service, User]) -> Service:
    return service_and_user[0]


@pytest.fixture
def costly(service_and_user: tuple[Service, User]) -> User:
    return service_and_user[1]


def costs(user: User) -> dict[str, Any]:
    found: Any = user.client.get("/api/v1/costs")["jobs"]
    return {job["name"]: job for job in found}


def test_a_dear_condition_is_charged_to_its_rule(costly: User) -> None:
    of = costs(costly)
    cost = {name: job["cpu_us_per_event"] for name, job in of.items()}
    plain = [cost[f"plain{n}"] for n in range(RULES)]
    assert max(plain) < 2 * min(plain) + 0.01, "what they share is in equal parts"
    assert cost["dear"] > 5 * max(plain)
    assert cost["noisy"] > max(plain), "it alone writes rows"
    shares = {job["graph"]: 0.0 for job in of.values()}
    for job in of.values():
        shares[job["graph"]] += job["share"]
    assert all(abs(share - 1) < 0.01 for share in shares.values())
    assert next(iter(of)) == max(of, key=lambda name: of[name]["cpu_s"]), "the costliest is first"


def test_rows_state_and_conditions(costly: User) -> None:
    of = costs(costly)
    assert of["noisy"]["rows"] == 8000
    assert of["plain1"]["rows"] == 0
    assert of["window"]["state_bytes"] > 0
    assert of["dear"]["state_bytes"] == 0
    assert of["dear"]["slowest"]["condition"].startswith("(CHAR_LENGTH(")
    shown: Any = costly.client.get("/api/v1/jobs/dear/cost")
    slow, fast = shown["conditions"]
    assert slow["us_per_row"] > fast["us_per_row"]
    assert fast["true"] == 1.0
    assert 0 <= of["plain1"]["cache_hits"] <= 1


def test_the_command_and_the_metrics(
    costly: User, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SQLENGINE_SERVER", costly.client.server)
    lines = sql("jobs", "--cost").stdout.splitlines()
    assert lines[0].split("  ")[0] == "name"
    assert "CPU µs/event" in lines[0]
    assert lines[1].startswith("dear ")
    found = json.loads(sql("jobs", "--cost", "--output", "json").stdout)
    assert {job["name"] for job in found["jobs"]} >= {"dear", "noisy", "window"}
    one = sql("jobs", "dear", "--cost").stdout
    assert "µs of the CPU an event, over 8,000 events" in one
    assert "CHAR_LENGTH" in one
    metrics = costly.client.get_text("/metrics")
    assert 'sqlengine_job_events_total{job="dear"} 8000.0' in metrics
    assert 'sqlengine_job_cpu_seconds_total{job="dear"}' in metrics
    assert 'sqlengine_job_state_bytes{job="window"}' in metrics
    asked, found = (
        float(next(n for n in metrics.splitlines() if n.startswith(start)).split()[-1])
        for start in (
            f'sqlengine_job_cache_{what}_total{{job="plain1"}}' for what in ("lookups", "hits")
        )
    )
    assert asked >= found > 0
    assert 'sqlengine_job_slowest_condition_us{condition="(CHAR_LENGTH(' in metrics


def test_conditions_are_measured_for_a_small_part_of_the_time(
    costly: User, service: Service
) -> None:
    now = [0.0]
    engine = service.engine
    slowest = SlowestConditions(engine.graphs, engine.costs_by_job, lambda: now[0])
    assert slowest.look()["dear"].condition.startswith("(CHAR_LENGTH(")
    costly.submit("later", rule("later", "amount > 5"))
    costly.write("events", {"id": 1, "word": "w", "amount": 1})
    eventually(lambda: costs(costly)["later"]["events"] == 1)
    assert "later" not in slowest.look(), "it is not time again"
    now[0] += 60
    assert slowest.look()["later"].condition == "(amount > 5)"
    costly.client.post("/api/v1/jobs/later/stop")
    assert "later" not in slowest.look()


def test_a_job_that_does_not_run_has_no_cost(costly: User) -> None:
    costly.submit("quiet", rule("quiet", "amount < 0"))
    costly.client.post("/api/v1/jobs/quiet/stop")
    refused = costly.refused(lambda: costly.client.get("/api/v1/jobs/quiet/cost"))
    assert "does not run" in str(refused)


BUDGET = "SET 'job.budget.cpu-us-per-event' = '0.001'; SET 'job.budget.exceeded' = '{}';\n"


def test_budgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over it a job is told of, isolated, or stopped; others are left alone."""
    monkeypatch.setattr(budgets.Budgets, "every_s", 0.1)
    with running(tmp_path / "data") as (_, user):
        user.prepare()
        user.submit("told", BUDGET.format("warn") + rule("told", "amount > 0"))
        user.submit("moved", BUDGET.format("isolate") + rule("moved", "amount > 1"))
        user.submit("ended", BUDGET.format("stop") + rule("ended", "amount > 2"))
        user.submit("wide", "SET 'job.budget.state' = '1 gb';\n" + rule("wide", "amount > 3"))
        user.write("events", *({"id": i, "word": "w", "amount": i} for i in range(3000)))
        eventually(lambda: user.states()["ended"] == "failed")
        jobs = {job["name"]: job for job in user.jobs()}
        assert "µs of the CPU an event, its budget is 0.001" in jobs["ended"]["reason"]
        eventually(lambda: user.job("moved")["graph"] != "main")
        assert "its budget is 0.001" in user.job("told")["hint"]
        assert user.job("told")["graph"] == "main"
        assert not user.job("wide")["hint"]
        assert costs(user)["told"]["over_budget"] is not None
        assert user.metric("sqlengine_job_over_budget") >= 1
    refused = "SET 'job.budget.exceeded' = 'shout';\n"
    with running(tmp_path / "other") as (_, user):
        user.prepare()
        error = user.refused(lambda: user.submit("r", refused + rule("r")))
        assert "cannot be 'shout'" in str(error)


def test_a_principal_has_a_budget() -> None:
    """The lesser of a job's budget and of its principal's counts, and the harder of what follows."""
    given = "[principals.a]\nroles = ['submit']\n[principals.a.budget]\n"
    rules = read_rules(given + "cpu-us-per-event = 5\nstate = '1MB'\nexceeded = 'stop'")
    policy = rules.principals["a"].budget
    own = budget_in({"job.budget.cpu-us-per-event": "20", "job.budget.state": "1 kb"})
    assert own.within(policy) == Budget(5, 1024, Exceeded.STOP)
    assert Budget().within(Budget()) == Budget()
    with pytest.raises(BadAccessFile, match=r"exceeded is one of"):
        read_rules(given + "exceeded = 'shout'")
