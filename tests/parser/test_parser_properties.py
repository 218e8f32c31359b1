"""What holds for all texts: bad ones end in a SqlError with a place in the text, good ones know
where their parts are."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

from parser import parse, parse_condition
from parser.dialect import Flink, position_of
from parser.errors import SqlError
from parser.statements import Insert, Query, Statement
from parser.writer.statements import write
from tests.conformance.statements import atoms
from tests.parser.bounds import bounded
from tests.parser.cases import read

HERE = Path(__file__).parent
FOLDERS = (HERE / "statements", HERE / "wanted")
STATEMENTS = [
    case.sql for folder in FOLDERS for path in sorted(folder.glob("*.sql")) for case in read(path)
]
EXPRESSIONS = [
    case.sql for path in sorted((HERE / "expressions").glob("*.sql")) for case in read(path)
]
BAD = [
    case.sql
    for path in sorted((HERE.parent / "errors" / "parser").glob("*.sql"))
    for case in read(path)
]
WORDS = (
    "( ) [ ] , . ; ' ` < > = * - /* */ /*+ -- \n \\ 1 1e 0x X' NOT IN IS AS FROM SELECT CASE END"
    " TABLE ROW < a.b".split(" ")
)
HUGE = [
    "(" * 300,
    ")" * 300,
    "'" * 999,
    "`" * 999,
    "9" * 5_000,
    "1e" + "9" * 20,
    "ARRAY<" * 200,
    "NOT " * 500,
    "- " * 500,
    "a." * 500,
]


_BYTES = st.binary(max_size=8).map(lambda b: b.decode("latin-1"))


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A statement of the data files with some of its text removed, doubled, or replaced by other
    words."""
    text = draw(st.sampled_from(STATEMENTS + BAD))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 12)))
        new = draw(
            st.sampled_from(["", text[start:end] * 2, *WORDS, *HUGE]) | st.text(max_size=4) | _BYTES
        )
        text = text[:start] + new + text[end:]
    return text


def _check(text: str) -> None:
    """Statements or errors come of it; what is written of a statement reads as the same."""
    for found in bounded(text):
        if not isinstance(found, SqlError):
            assert isinstance(found, Statement)
            assert parse(write(found)) == [found], write(found)


@settings(deadline=None, max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_mutated_statements_give_statements_or_errors(text: str) -> None:
    _check(text)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=80) | st.binary(max_size=80).map(lambda b: b.decode("latin-1")))
def test_random_text_gives_statements_or_errors(text: str) -> None:
    _check(text)
    _check("SELECT " + text)


def test_a_wide_condition_is_no_deep_one() -> None:
    node = parse_condition(" OR ".join(f"LOWER(`a`) LIKE '%{i}' ESCAPE '\\'" for i in range(1100)))
    count = 1
    while isinstance(node, exp.Or):
        count, node = count + 1, node.this
    assert count == 1100


@pytest.mark.parametrize("operator", ["AND", "OR", "+", "||", "UNION ALL", "INTERSECT"])
def test_long_chains_are_written(operator: str) -> None:
    words = (
        f" {operator} ".join(["SELECT 1"] * 1100)
        if operator.isupper() and len(operator) > 3
        else ""
    )
    text = words or "SELECT " + f" {operator} ".join(["1"] * 1100)
    (statement,) = parse(text)
    (again,) = parse(write(statement))
    assert atoms(again) == atoms(statement)


def _text_at(text: str, node: exp.Expression) -> str:
    place = position_of(node)
    assert place is not None
    return text.split("\n")[place.line - 1][place.column - 1 :]


@pytest.mark.parametrize("text", STATEMENTS)
def test_nodes_are_where_they_say(text: str) -> None:
    script = "SELECT 1;\n  " + text
    for statement in parse(script)[1:]:
        if isinstance(statement, (Query, Insert)):
            for node in statement.query.find_all(exp.Identifier, exp.Anonymous, exp.Literal):
                if position_of(node) is None and isinstance(node, exp.Literal):
                    continue  # what is meant where nothing is written: TRIM(a), A+
                there = _text_at(script, node).upper().lstrip("`")
                start = (
                    ("'", "U&'", "N'", "_UTF8'")
                    if isinstance(node, exp.Literal) and node.is_string
                    else node.name.upper()
                )
                assert there.startswith(start)


@pytest.mark.parametrize("text", [e for e in EXPRESSIONS if "JSON_" not in e])
def test_what_the_dialect_writes_reads_back(text: str) -> None:
    tree = sqlglot.parse_one(text, dialect=Flink)
    assert sqlglot.parse_one(tree.sql(dialect=Flink), dialect=Flink) == tree
