"""Real rules and Flink's own statements, where the corpora are present."""

from __future__ import annotations

import json
from pathlib import Path

from sqlglot import exp

from parser import parse, parse_condition
from parser.errors import SqlError, UnsupportedError


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_all_sigma_conditions_parse(shared: Path) -> None:
    wheres = [r["where"] for p in sorted((shared / "corpora" / "sigma").glob("*.rules.jsonl")) for r in _rows(p)]
    assert len(wheres) >= 1831
    widest = 0
    for text in wheres:
        connectors = parse_condition(text).find_all(exp.And, exp.Or)
        widest = max(widest, sum(1 for _ in connectors))
    assert widest >= 1090


def test_flinks_statements_parse_or_are_refused_by_name(shared: Path) -> None:
    """All of them are good Flink SQL: a ParseError would be our mistake."""
    texts = [row["sql"] for row in _rows(shared / "corpora" / "flink" / "statements.jsonl")]
    refused = [error for text in texts if (error := _error(text)) is not None]
    assert [str(e) for e in refused if not isinstance(e, UnsupportedError)] == []
    assert len(refused) <= 0.03 * len(texts)


def _error(text: str) -> SqlError | None:
    try:
        parse(text)
    except SqlError as error:
        return error
    return None
