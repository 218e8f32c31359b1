"""Unusual statements, and whether Flink's parser takes them: `verdicts.jsonl` is its answer, one
line a statement. Where ours differs on purpose, `why` says why. What Flink refuses later, when it
looks up names and types, its parser takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from parser import parse
from parser.errors import SqlError
from parser.writer.statements import write

GOLDEN = Path(__file__).parent / "verdicts.jsonl"
_QUERY = re.compile(r"\s*(SELECT|VALUES?|WITH|\(|TABLE)\b", re.IGNORECASE)


def goldens() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()[1:]]


def _verdict(sql: str) -> str:
    try:
        statements = parse(sql)
    except SqlError as error:
        return "refused" if error.position is not None else "without a place"
    assert [parse(write(s)) for s in statements] == [[s] for s in statements]
    return "taken"


def test_we_take_what_flink_takes() -> None:
    wrong = [g["sql"] for g in goldens() if (_verdict(g["sql"]) == g["flink"]) == ("why" in g)]
    assert not wrong


@pytest.mark.oracle
def test_flinks_parser_still_says_so(flink: Any, update: bool) -> None:
    """Queries are explained, so that none runs."""
    found = []
    for golden in goldens():
        sql = f"EXPLAIN {golden['sql']}" if _QUERY.match(golden["sql"]) else golden["sql"]
        messages = [
            e["message"]
            for e in flink.run(sql, keep_going=True, limit=1, timeout_s=20)
            if e["kind"] == "error"
        ]
        refused = any(
            re.search("SQL parse failed|SqlParserEOFException", m or "") for m in messages
        )
        found.append({**golden, "flink": "refused" if refused else "taken"})
    if update:
        lines = [{"flink": "2.3.0"}, *found]
        GOLDEN.write_text(
            "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8"
        )
    assert found == goldens()
