"""docs/suppression.md: its statements give what the page shows for its rows."""

from __future__ import annotations

import re
from pathlib import Path

from sqlengine import connect
from tests.support import ROOT, eventually

PAGE = (ROOT / "docs" / "suppression.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```sql\n(.*?)^```\n(?:\n((?:    [^\n]*\n)+))?", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"^INSERT INTO (\w+)", re.MULTILINE)


def test_every_statement_gives_what_the_page_shows(tmp_path: Path) -> None:
    (rows,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    shown = {}
    with connect(data=tmp_path / "data") as connection:
        for number, (statement, result) in enumerate(BLOCK.findall(PAGE)):
            for topic in re.findall(r"'topic' = '(\w+)',", statement):
                connection.create_topic(topic)
            connection.submit(f"job{number}", statement)
            for target in TARGET.findall(statement):
                shown[target] = [line.strip() for line in result.splitlines()]
        connection.write("detections", rows.splitlines())

        def results() -> dict[str, list[str]]:
            return {t: sorted((r.value or b"").decode() for r in connection.read(t)) for t in shown}

        expected = {t: sorted(lines) for t, lines in shown.items()}
        eventually(
            lambda: all(len(r) >= len(expected[t]) for t, r in results().items()),
            lambda: str(results()),
        )
        assert results() == expected
    assert len(shown) == 9
