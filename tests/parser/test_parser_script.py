"""Cutting scripts into statements, and what people see of it: positions, numbers, errors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser import parse, parse_pieces
from parser.errors import ParseError, SqlError
from parser.script import split, substitute
from parser.statements import Insert, Query, StatementSet

SCRIPTS = [
    ("", []),
    (" ;; -- nothing; here\n /* ; */ // ;\n", []),
    ("a; b", ["a", "b"]),
    ("a ';' b; c `;` d; /*+ ; */ e", ["a ';' b", "c `;` d", "/*+ ; */ e"]),
    ("a 'it''s;' b; c", ["a 'it''s;' b", "c"]),
    ("-- one\na /* x; */ b -- tail\n; c", ["a /* x; */ b", "c"]),
    ("a 'open; b", ["a 'open; b"]),
    ("a /* open; b", ["a /* open; b"]),
    ("EXECUTE STATEMENT SET BEGIN a; b; END; c", ["EXECUTE STATEMENT SET BEGIN a; b; END", "c"]),
    ("begin statement set; a; end; c;", ["begin statement set; a; end", "c"]),
    ("EXPLAIN STATEMENT SET BEGIN a; END", ["EXPLAIN STATEMENT SET BEGIN a; END"]),
    (
        "BEGIN STATEMENT SET; a CASE x END; b; END /* x */ ; c",
        ["BEGIN STATEMENT SET; a CASE x END; b; END", "c"],
    ),
    ("BEGIN STATEMENT SET; a; b", ["BEGIN STATEMENT SET; a; b"]),
    ("SELECT begin_statement_set; x", ["SELECT begin_statement_set", "x"]),
]


@pytest.mark.parametrize(("text", "expected"), SCRIPTS)
def test_split(text: str, expected: list[str]) -> None:
    assert [piece.sql for piece in split(text)] == expected


@given(st.text(alphabet="aB;'`/*-+ \n\\$é", max_size=60))
def test_pieces_are_where_they_say(text: str) -> None:
    lines = text.split("\n")
    for piece in split(text):
        rest = "\n".join(
            [
                lines[piece.position.line - 1][piece.position.column - 1 :],
                *lines[piece.position.line :],
            ]
        )
        assert rest.startswith(piece.sql)
        assert piece.sql.strip() == piece.sql


def test_a_bad_statement_does_not_hide_the_next() -> None:
    found = list(parse_pieces("SELECT 1;\nSELEC 2;\nSELECT 'x' y z;\nSELECT 4;", file="a.sql"))
    kinds = [str(f.position) if isinstance(f, SqlError) else type(f) for f in found]
    assert kinds == [Query, "a.sql:2:1", "a.sql:3:14", Query]


def test_positions_count_in_the_whole_script() -> None:
    script = "-- comment\n\n  SELECT 1; BEGIN STATEMENT SET;\n INSERT INTO t SELECT a FROM u;\nEND"
    query, statements = parse(script)
    assert isinstance(statements, StatementSet)
    places = [query.position, statements.position, statements.inserts[0].position]
    assert [str(p) for p in places] == ["3:3", "3:13", "4:2"]


@pytest.mark.parametrize(
    ("script", "place", "length"),
    [
        ("INSERT INTO a.`b c` SELECT 1", "1:13", 7),
        ("DROP TABLE IF EXISTS tt", "1:22", 2),
        ("DESCRIBE EXTENDED t", "1:19", 1),
        ("SHOW COLUMNS\nFROM a.b", "2:6", 3),
        ("SHOW CREATE TABLE t", "1:19", 1),
    ],
)
def test_statements_know_where_their_names_stand(script: str, place: str, length: int) -> None:
    (statement,) = parse(script)
    assert statement.subject is not None
    assert (str(statement.subject), statement.subject.length) == (place, length)


def test_target_columns_know_where_they_stand() -> None:
    (statement,) = parse("INSERT INTO t (a,\n b.c) SELECT 1, 2")
    assert isinstance(statement, Insert)
    assert [str(p) for p in statement.places] == ["1:16", "2:2"]


def test_substitute() -> None:
    assert substitute("a ${X} '${y.z}' $X ${}", {"X": "1", "y.z": "${X}"}) == "a 1 '${X}' $X ${}"
    with pytest.raises(ParseError, match="variable 'NO' has no value") as caught:
        substitute("a\n  ${NO}", {"X": "1"})
    assert str(caught.value.position) == "2:3"
