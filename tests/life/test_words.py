"""What people read of a rule is in the rule's words: no name of a column that the planner made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.cli.conftest import Sql
from tests.service.harness import User, rule

INTERNAL = re.compile(r"\w\$\w")
COUNTED = """-- @rule
-- title: Many
-- suppress: 1h by n
-- threshold: 2 in 10m
-- limit: 5/h
{head}INSERT INTO counts SELECT COUNT(*), MIN(id) FROM TABLE(TUMBLE(TABLE timed, DESCRIPTOR(ts), INTERVAL '1' SECOND))
GROUP BY window_start, window_end, id * 2 HAVING COUNT(*) > {least}"""
HELD = "-- @rule\n-- suppress: 1h by id\n-- maintenance: Sun 02:00-04:00\n" + rule("held")


def test_states_are_told_in_the_words_of_the_rule(served: Sql, user: User, tmp_path: Path) -> None:
    file = tmp_path / "many.sql"
    said: list[Any] = []
    for head, command in (("", "submit"), ("-- status: shadow\n", "validate"), ("", "submit")):
        file.write_text(COUNTED.format(head=head, least=len(said)))
        said.append(served(command, file))
    said += [served("submit", file, "--dry-run"), served("jobs", "many", "--wide")]
    for done in said:
        assert not INTERNAL.search(done.stdout + done.stderr), done.stdout + done.stderr
    assert any("suppress: 1 in 1h by n" in done.stdout for done in said)


def test_why_is_told_in_the_words_of_the_rule(served: Sql, user: User) -> None:
    user.submit("held", HELD)
    first, second = (user.write("events", {"id": 7}) for _ in range(2))
    for at in (first, second):
        done = served("why", "held", f"events@{at}")
        assert not INTERNAL.search(done.stdout + done.stderr), done.stdout + done.stderr
        assert "suppress: 1 in 1h by id" in done.stdout
        as_json = served("why", "held", f"events@{at}", "--output", "json").stdout
        assert not INTERNAL.search(as_json), as_json
