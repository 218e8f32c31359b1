"""SQL and the typed statements that it becomes, from data files."""

from __future__ import annotations

from pathlib import Path

import pytest

from parser import parse, parse_condition
from tests.parser.cases import check
from tests.parser.rendering import render_statement, render_tree

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    "path",
    sorted([*(HERE / "statements").glob("*.sql"), *(HERE / "wanted").glob("*.sql")]),
    ids=lambda p: p.stem,
)
def test_statements(path: Path, update: bool) -> None:
    check(path, lambda sql: "\n".join(map(render_statement, parse(sql))), update)


@pytest.mark.parametrize("path", sorted((HERE / "expressions").glob("*.sql")), ids=lambda p: p.stem)
def test_expressions(path: Path, update: bool) -> None:
    """One expression a case."""
    check(path, lambda sql: render_tree(parse_condition(sql)), update)
