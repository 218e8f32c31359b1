"""A statement that reads the table into which it writes meets the rows that were there when it
began."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from sqlengine.session.environment import open_runner
from sqlengine.session.output import EventOutput
from sqlengine.session.session import Session


@pytest.mark.parametrize("rows_per_read", [1, 100])
def test_rows_of_its_own_are_not_read(rows_per_read: int, tmp_path: Path) -> None:
    script = """
    CREATE TABLE m (id INT) WITH ('connector' = 'memory', 'name' = 'm');
    INSERT INTO m VALUES (1), (2), (3);
    INSERT INTO m SELECT id + 10 FROM m;
    INSERT INTO m SELECT a.id + b.id FROM m AS a JOIN m AS b ON a.id = b.id + 10;
    SELECT id FROM m;
    """
    out = io.StringIO()
    with open_runner(tmp_path, rows_per_read) as runner:
        assert Session(runner, EventOutput(out)).run(script), out.getvalue()
    rows = [e["row"][0] for e in map(json.loads, out.getvalue().splitlines()) if e["kind"] == "row"]
    assert sorted(rows) == [1, 2, 3, 11, 12, 12, 13, 14, 16]
