"""docs/operations.md: its commands run against the README's job, and show what the page says of
them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.reader import Reader, free_port
from tests.support import ROOT, eventually

PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
(JOB,) = re.findall(r"^```sql\n-- brute_force\.sql\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
EVENTS = """{"ts": "2026-01-31 12:00:01", "src_ip": "203.0.113.7", "outcome": "failure"}
nonsense
{"ts": "soon", "src_ip": "203.0.113.8", "outcome": "success"}
"""
# Of each step in order: what its commands show.
SHOWN = {
    "1. Is the server well?": ['{"problem":null,"status":"ready"}'],
    "2. Does the job run?": ["brute_force  running  1"],
    "3. Do events come?": ["logins            1       3", '"2026-01-31 12:00:01"'],
    "4. Can they be read?": ["malformed JSON", "is not a TIMESTAMP(3)", "203.0.113.7"],
    "5. Does it wait for time?": [
        "waits for watermark 2026-01-31T12:00:10, has 11:59:59 (1 window)",
        "a later row in shard 0 of table 'logins' moves the watermark on",
        "table   behind     watermark            lag",
        "2026-01-31T12:00:01",
    ],
    "6. Do the rows match?": ["203.0.113.7  1", "TUMBLE"],
    "7. Is it too slow?": [
        "sqlengine_step_seconds",
        "sqlengine_slow_steps",
        "sqlengine_memory_bytes",
    ],
    "8. Does the output arrive?": [],
}


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    one = Reader(tmp_path, free_port())
    yield one
    one.close()


def test_each_step_shows_what_the_page_says(reader: Reader) -> None:
    (reader.folder / "brute_force.sql").write_text(JOB)
    (reader.folder / "events").write_text(EVENTS)
    steps = dict(re.findall(r"^## (\d\. .*?)\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL))
    assert steps.keys() == SHOWN.keys()
    with reader.ended():
        reader.serve("sql serve --data data")
        reader.run("sql submit brute_force.sql; sql topic write logins events")

        def read() -> bool:
            reader.run("sql dead-letters")
            return "letter 1" in reader.printed

        eventually(read)
        for title, step in steps.items():
            blocks = re.findall(r"^```sh\n(.*?)^```", step, re.MULTILINE | re.DOTALL)
            assert blocks, title
            reader.run("".join(blocks))
            for shown in SHOWN[title]:
                assert shown in reader.printed, title
        check_metrics(reader)


def check_metrics(reader: Reader) -> None:
    """Each metric that the page names is one of the server."""
    named = set(re.findall(r"`(sqlengine_\w+)", PAGE))
    reader.run("curl -sS localhost:8083/metrics")
    declared = set(re.findall(r"^# TYPE (\w+)", reader.printed, re.MULTILINE))
    assert len(named) > 5
    assert named <= declared | {name.removesuffix("_total") for name in declared}
