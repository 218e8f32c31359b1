"""RSQLDB's EMIT says for one statement what Flink's settings say for those behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sql.golden import Script, answers, run

TABLE = """
CREATE TABLE strict (ts TIMESTAMP(3), k STRING, v INT, WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${DATA}/events.json', 'format' = 'json');
"""
QUERY = """
SELECT k, TUMBLE_START(ts, INTERVAL '10' SECOND) AS ws, COUNT(*) AS n FROM strict
GROUP BY k, TUMBLE(ts, INTERVAL '10' SECOND)"""
EARLY = (
    "SET 'table.exec.emit.early-fire.enabled' = 'true'; SET 'table.exec.emit.early-fire.delay' = '0"
    " ms';"
)
LATE = (
    "SET 'table.exec.emit.late-fire.enabled' = 'true'; SET 'table.exec.emit.allow-lateness' ="
    " '1 h';"
)


@pytest.mark.parametrize(
    ("emit", "settings"),
    [
        ("WITHOUT DELAY BEFORE WATERMARK", EARLY),
        ("WITHOUT DELAY", EARLY),
        ("WITHOUT DELAY AFTER WATERMARK", LATE + "SET 'table.exec.emit.late-fire.delay' = '0 ms';"),
        (
            "WITH DELAY '4' SECOND BEFORE WATERMARK, WITHOUT DELAY AFTER WATERMARK",
            EARLY.replace("'0 ms'", "'4 s'")
            + LATE
            + "SET 'table.exec.emit.late-fire.delay' = '0 ms';",
        ),
    ],
)
def test_emit_is_the_settings_of_its_statement(emit: str, settings: str, tmp_path: Path) -> None:
    by_emit, plain = told(f"{TABLE}{QUERY} EMIT {emit};{QUERY};", tmp_path)
    by_settings = told(f"{settings}{TABLE}{QUERY};", tmp_path)[0]
    assert by_emit == by_settings
    assert by_emit != plain  # the next statement has windows as ever


def told(text: str, folder: Path) -> list[object]:
    part = folder / str(len(list(folder.iterdir())))
    part.mkdir()
    script = Script(part.with_suffix(".sql"))
    script.path.write_text(text)
    events, messages = run(script, part, 4096)
    assert not messages
    return [a for _, a in sorted(answers(script, events).items())]
