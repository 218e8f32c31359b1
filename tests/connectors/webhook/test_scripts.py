"""A script writes to a webhook, by the embedded executor and in stages as on Spark: each row once, and
refused ones set aside."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from sqlengine.executors.sinks.rows_set_aside import RowsSetAside
from sqlengine.session.environment import open_runner
from sqlengine.session.session import Session
from sqlengine.session.spark import script_runner
from tests.servers.webhook import Got, Told, receiving
from tests.spark.staged import Staged
from tests.sql.golden import Collected

Opened: TypeAlias = Callable[[Path], AbstractContextManager[Any]]
SCRIPT = """SET 'job.on-error' = 'dead-letter';
CREATE TABLE t (id BIGINT, name STRING) WITH ('connector' = 'filesystem', 'path' = '{path}', 'format' = 'json');
CREATE TABLE hook (id BIGINT, total BIGINT) WITH ('connector' = 'webhook', 'url' = '{url}/{{{{id}}}}', 'format' = 'json');
INSERT INTO hook SELECT id, CHAR_LENGTH(name) FROM t WHERE id <> 3;"""


def embedded(folder: Path) -> AbstractContextManager[Any]:
    return open_runner(folder)


def staged(folder: Path) -> AbstractContextManager[Any]:
    return script_runner(folder, 100, Staged())


@pytest.mark.parametrize("opened", [embedded, staged], ids=["embedded", "staged"])
def test_a_script_writes_each_row_once(tmp_path: Path, opened: Opened) -> None:
    (tmp_path / "in.json").write_text(
        "".join(f'{{"id":{i},"name":"{"x" * i}"}}\n' for i in range(10))
    )

    def reply(got: Got) -> Told:
        return Told(404, body=b"unknown") if got.path == "/7" else Told()

    with receiving() as receiver, opened(tmp_path / "data") as runner:
        receiver.reply, aside = reply, RowsSetAside()
        runner.dead_letters = aside
        text = SCRIPT.format(path=tmp_path / "in.json", url=receiver.url)
        collected = Collected(text)
        Session(runner, collected).run(text)
        got = sorted((g.json["id"], g.json["total"], g.path) for g in receiver.got)
    assert aside.rows == 1
    assert got == [(i, i, f"/{i}") for i in range(10) if i != 3], collected.messages


def test_a_script_says_that_rows_are_missing(tmp_path: Path) -> None:
    """Unlike a server it keeps none for later."""
    (tmp_path / "in.json").write_text('{"id":1,"name":"x"}\n')
    with receiving() as receiver, open_runner(tmp_path / "data") as runner:
        receiver.reply = lambda got: Told(503)
        text = SCRIPT.format(path=tmp_path / "in.json", url=receiver.url)
        collected = Collected(text)
        assert not Session(runner, collected).run(text)
    said = " ".join(collected.messages)
    assert "rows of it are missing" in said
    assert "rows are kept" not in said
