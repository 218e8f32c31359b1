"""pySigma's own backend for sqlite finds the same: correlations
of random logins, by the moments of their alerts."""

from __future__ import annotations

import json
import random
import sqlite3
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sigma.correlating import correlation, run

sqlite_backend = pytest.importorskip("sigma.backends.sqlite", reason="pysigma-backend-sqlite")
pytestmark = pytest.mark.slow

Moment = tuple[str, str]
START = datetime(2024, 1, 1, tzinfo=UTC)
GROUPED = "group-by: [User], timespan: 5m"
CORRELATIONS = [
    f"type: event_count, rules: [failed], {GROUPED}, condition: {{gte: 3}}",
    f"type: event_count, rules: [failed, login], {GROUPED}, condition: {{gt: 4}}",
    "type: event_count, rules: [failed], group-by: [User, Host], timespan: 90s, condition: {eq: 2}",
    "type: event_count, rules: [whoami], timespan: 1h, condition: {lte: 3}",
    f"type: value_count, rules: [failed], {GROUPED}, condition: {{field: Host, gte: 3}}",
    f"type: value_sum, rules: [failed, whoami], {GROUPED}, condition: {{field: n, gte: 20}}",
    f"type: value_avg, rules: [login], {GROUPED}, condition: {{field: n, lt: 4}}",
    f"type: value_median, rules: [failed], {GROUPED}, condition: {{field: n, gt: 6}}",
    f"type: value_percentile, rules: [failed], {GROUPED}, condition: {{field: n, gt: 8, percentile: 80}}",
    f"type: temporal, rules: [failed, login, whoami], {GROUPED}",
    f"type: temporal, rules: [failed, login, whoami], {GROUPED}, condition: {{gte: 2}}",
    f"type: temporal, rules: [failed, login], {GROUPED}, aliases: {{User: {{login: Account}}}}",
    f"type: temporal, {GROUPED}, condition: failed and (login or whoami)",
]
ORDERED = [
    f"type: temporal_ordered, rules: [failed, login], {GROUPED}",
    f"type: temporal_ordered, rules: [whoami, failed, login], {GROUPED}",
]


def random_logins(seed: int) -> list[dict[str, Any]]:
    chance, now, found = random.Random(seed), START, []
    for number in range(300):
        now += timedelta(milliseconds=chance.choice([1, 500, 20_000, 60_000]))
        found.append(
            {
                "id": number,
                "kind": chance.choice(["failed", "failed", "Login", "whoami", "other"]),
                "User": chance.choice(["bob", "BOB", "eve", None]),
                "Account": chance.choice(["bob", "eve"]),
                "Host": chance.choice(["a", "b", "c", "A"]),
                "n": chance.choice([None, 1.0, 4.5, 10.0]),
                "ts": now.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3],
            }
        )
    return found


def of_sqlite(text: str, logins: list[dict[str, Any]]) -> set[Moment]:
    """(time, group) of all alerts of the correlation."""
    from sigma.collection import SigmaCollection

    rules = correlation(f"{{{text}}}").replace("id: C\n", "")
    backend = sqlite_backend.sqliteBackend(
        table="logs", timestamp_field="ts", event_id_field="id", collate_nocase=True
    )
    database = sqlite3.connect(":memory:")
    columns = list(logins[0])
    database.execute(f"CREATE TABLE logs ({', '.join(columns)})")
    database.executemany(
        f"INSERT INTO logs VALUES ({', '.join('?' * len(columns))})",
        [tuple(e.values()) for e in logins],
    )
    *_, query = backend.convert(SigmaCollection.from_yaml(rules))
    cursor = database.execute(query)
    names = [d[0] for d in cursor.description]
    found = (dict(zip(names, row, strict=True)) for row in cursor)
    return {(_moment(a["occurrence_time"]), _group(a["group_keys"])) for a in found}


def _moment(seconds: float) -> str:
    at = datetime.fromtimestamp(round(seconds * 1000) / 1000, UTC)
    return at.strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def _group(keys: str) -> str:
    return ", ".join(str(v) for v in json.loads(keys).values())


def of_engine(folder: Path, text: str, logins: list[dict[str, Any]]) -> set[Moment]:
    alerts = run(folder, correlation(f"{{{text}}}"), logins)
    return {(_padded(a["ts"]), a["group_key"] or "") for a in alerts if a["rule_id"] == "C"}


def _padded(text: str) -> str:
    """A time with three digits behind the second."""
    whole, _, rest = text.partition(".")
    return f"{whole}.{rest:0<3}"


@pytest.mark.parametrize("text", CORRELATIONS)
def test_correlation(text: str, tmp_path: Path) -> None:
    for seed in range(2):
        logins = random_logins(seed)
        (tmp_path / str(seed)).mkdir()
        expected = of_sqlite(text, logins)
        assert expected
        assert of_engine(tmp_path / str(seed), text, logins) == expected


@pytest.mark.parametrize("text", ORDERED)
def test_order(text: str, tmp_path: Path) -> None:
    """sqlite gives an alert for every event with an ordered sequence before it, we one for each
    sequence, with the event that completes it."""
    logins = random_logins(3)
    expected, found = of_sqlite(text, logins), of_engine(tmp_path, text, logins)
    assert found
    assert found <= expected
    firsts = dict(_firsts(expected))
    assert dict(_firsts(found)) == firsts


def _firsts(moments: set[Moment]) -> Iterator[tuple[str, str]]:
    by_group: dict[str, list[str]] = defaultdict(list)
    for at, group in moments:
        by_group[group].append(at)
    for group, times in by_group.items():
        yield group, min(times)
