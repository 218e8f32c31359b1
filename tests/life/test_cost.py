"""`sql jobs --cost`: what each rule costs, and which of its conditions most."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Sql
from tests.service.harness import WINDOW, User, rule, running
from tests.support import eventually

DEAR = "CHAR_LENGTH(REGEXP_REPLACE(REPEAT(word, 20), '[aeiou]+', '')) > 100"
RULES = 12  # more than so many that their limits are looked at together


@pytest.fixture(scope="module")
def costly(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A server with rules that share all they can, a dear one, one that writes each event, and a
    window; all have read the same events."""
    with running(tmp_path_factory.mktemp("cost") / "data") as (_, user):
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
        yield user


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


def test_a_job_that_does_not_run_has_no_cost(costly: User) -> None:
    costly.submit("quiet", rule("quiet", "amount < 0"))
    costly.client.post("/api/v1/jobs/quiet/stop")
    refused = costly.refused(lambda: costly.client.get("/api/v1/jobs/quiet/cost"))
    assert "does not run" in str(refused)
