"""Names and types of result columns, and what is refused, as real Flink has them: `schemas.jsonl`
is its answer to `schemas.sql`, one line per SELECT. Where we differ on purpose, `ours` says what
and `why` says why."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from parser import parse
from parser.errors import SqlError
from parser.script import split
from parser.statements import Query
from planner import bind
from planner.catalog import Catalog
from tests.planning import optimized

FLINK = "2.3.0"
FOLDER = Path(__file__).parent
SCRIPT = FOLDER / "schemas.sql"
GOLDEN = FOLDER / "schemas.jsonl"


def goldens() -> list[dict[str, Any]]:
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()[1:]]


def ours() -> Iterable[tuple[str, Any]]:
    """Each SELECT with its schema after binding and optimising, or 'refused'."""
    catalog = Catalog()
    script = SCRIPT.read_text()
    for statement, piece in zip(parse(script), split(script), strict=True):
        try:
            if isinstance(statement, Query):
                schema = optimized(statement, catalog).schema
                yield piece.sql, [[c.name, str(c.type)] for c in schema]
                continue
            bound = bind(statement, catalog, {})
        except SqlError:
            yield piece.sql, "refused"
        else:
            assert not isinstance(bound, tuple)
            catalog = catalog.put(bound)


def test_schemas_are_those_of_flink() -> None:
    expected = {g["sql"]: g.get("ours", g["flink"]) for g in goldens()}
    assert dict(ours()) == expected


def recorded(events: Iterable[dict[str, Any]]) -> dict[str, Any]:
    script = SCRIPT.read_text()
    statements, pieces = parse(script), split(script)
    answers: dict[str, Any] = {}
    for event in events:
        statement = statements[event["stmt"]]
        if isinstance(statement, Query) and event["kind"] in ("schema", "error"):
            answers[pieces[event["stmt"]].sql] = (
                event["columns"] if event["kind"] == "schema" else "refused"
            )
    return answers


@pytest.mark.oracle
def test_flink_still_says_so(flink: Any, update: bool) -> None:
    answers = recorded(flink.run(SCRIPT.read_text(), keep_going=True))
    known = {g["sql"]: g for g in goldens()} if GOLDEN.exists() else {}
    if update:
        lines = [
            {**known.get(sql, {}), "sql": sql, "flink": answer} for sql, answer in answers.items()
        ]
        GOLDEN.write_text("".join(json.dumps(line) + "\n" for line in [{"flink": FLINK}, *lines]))
    assert answers == {g["sql"]: g["flink"] for g in goldens()}
