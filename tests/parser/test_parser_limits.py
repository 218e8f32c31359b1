"""Hostile texts: whatever they are, they cost time and memory in proportion to their length, and
end in statements or in an error with a place."""

from __future__ import annotations

import pytest

from parser import parse
from parser.errors import SqlError
from tests.parser.bounds import bounded

NESTED = [
    ("SELECT {}1{}", "(", ")"),
    ("SELECT {}1{}", "f(", ")"),
    ("SELECT {}1{}", "f(a => ", ")"),
    ("SELECT {}1{}", "NOT ", ""),
    ("SELECT {}1{}", "- ", ""),
    ("SELECT {}1{}", "CASE WHEN 1 THEN ", " END"),
    ("SELECT {}1{}", "a IN (SELECT ", ")"),
    ("SELECT CAST(a AS {}INT{})", "ARRAY<", ">"),
    ("SELECT CAST(a AS {}INT{})", "ROW<a ", ">"),
    ("SELECT * FROM {}t{}", "(SELECT * FROM ", ")"),
    ("SELECT * FROM {}t JOIN u ON TRUE{}", "(", ")"),
    ("{}SELECT 1{}", "(", ")"),
    ("SELECT 1 FROM t GROUP BY {}a{}", "ROLLUP (", ")"),
    ("SELECT {}1{}", "JSON_OBJECT('a' VALUE ", ")"),
    ("SELECT {}1{}", "ARRAY[", "]"),
    ("SELECT {}1{}", "TRIM(BOTH 'a' FROM ", ")"),
    ("SELECT {}1{}", "CAST(", " AS INT)"),
    ("SELECT {}1{}", "ROW(", ", 1)"),
    ("SELECT a{}1{}", "[b", "]"),
    ("SELECT CAST(a AS {}INT{})", "STRUCTURED<'C', a ", ">"),
    ("SELECT CAST(a AS {}INT{})", "MAP<INT, ", ">"),
    ("SELECT CAST(a AS {}INT{})", "ROW(a ", ")"),
    ("SELECT f({}TABLE t{})", "f(TABLE t, ", ")"),
    ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN ({}A{}) DEFINE A AS TRUE)", "(", ")"),
    ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN ({}A{}) DEFINE A AS TRUE)", "{- ", " -}"),
    ("SELECT * FROM t MATCH_RECOGNIZE (PATTERN ({}A{}) DEFINE A AS TRUE)", "PERMUTE (B, ", ")"),
    ("SELECT * FROM t JOIN {}u{} ON TRUE", "(u JOIN ", " ON TRUE)"),
    ("SELECT {}1{}", "{fn f(", ")}"),
    ("SELECT {}1{}", "(SELECT ", ")"),
    ("WITH a AS {}(SELECT 1){} SELECT 1", "(WITH a AS ", " SELECT 1)"),
    ("INSERT INTO t (a) {}SELECT 1{}", "(", ")"),
    ("EXPLAIN {}SELECT 1{}", "(", ")"),
]


@pytest.mark.parametrize(("frame", "opening", "closing"), NESTED)
def test_nesting_is_bounded(frame: str, opening: str, closing: str) -> None:
    assert parse(frame.format(opening * 40, closing * 40))
    for depth in (130, 5000):
        with pytest.raises(SqlError, match="nested too deeply") as caught:
            parse(frame.format(opening * depth, closing * depth))
        assert caught.value.position is not None


DIGITS = "9" * 20_000
NUMBERS = [
    "SELECT {}", "SELECT -{}", "SELECT 0.{}", "SELECT 1e{}", "SELECT 1e-{}", "SELECT 1 LIMIT {}", "SELECT 1 OFFSET {}",
    "SELECT CAST(a AS VARCHAR({}))", "SELECT CAST(a AS DECIMAL({}, 2))", "SELECT CAST(a AS TIMESTAMP({}))",
    "SELECT INTERVAL '{}' YEAR", "SELECT INTERVAL {} DAY", "SELECT INTERVAL '1' DAY({})", "SELECT INTERVAL '1.{}' SECOND",
    "SELECT INTERVAL '{}:1' HOUR TO MINUTE", "SELECT DATE '{}-01-01'", "SELECT TIME '01:00:00.{}'",
    "SELECT TIMESTAMP '2020-01-01 00:00:00.{}'", "SELECT 0x{}", "SELECT X'{}'", "SELECT U&'\\+{}'", "SELECT a[{}]",
    "SELECT * FROM t TABLESAMPLE BERNOULLI ({})", "SELECT * FROM t TABLESAMPLE SYSTEM (1) REPEATABLE ({})",
    "SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a PATTERN (A{{{}}}) DEFINE A AS TRUE)",
    "CREATE TABLE t (a INT) DISTRIBUTED INTO {} BUCKETS WITH ('connector' = 'x')", "SET {} = {}",
]  # fmt: skip
TIMES = 3_000
# What stands before, again and again, and behind it.
REPEATED = [
    ("", "/*+", ""), ("", "/*", ""), ("", "X'", ""), ("", "'`", ""), ("", "a.", ""), ("", "${", ""), ("", "(", ""),
    ("", "`", ""), ("", ";", ""), ("", "1.", ""), ("", "-", ""), ("", "a'", ""), ("", "e'\\", ""), ("", "U&'", ""),
    ("", "_a'", ""), ("", "//", ""), ("", " \t", ""), ("", "a ", ""), ("", "CREATE ", ""), ("", "/**/", "SELECT 1"),
    ("", "EXPLAIN ", "SELECT 1"), ("", "EXECUTE ", "SELECT 1"), ("", "\r\n", "SELECT 1"), ("", "BEGIN STATEMENT SET;", ""),
    ("SELECT '", "''", "'"), ("SELECT '", "''", ""), ("SELECT `", "``", "`"), ("SELECT '", "\0\x80\uffff", "'"),
    ("SELECT U&'", "\\0041", "'"), ("SELECT ", "'a'\n", ""), ("SELECT ", "1, ", "1"), ("SELECT a IN (", "1, ", "1)"),
    ("SELECT /*+ A(", "'x' = 'y', ", "b) */ 1"), ("SELECT * FROM t ", "/*+ OPTIONS('a' = 'b') */ ", ""),
    ("SELECT a", "[1]", ""), ("SELECT a", ".b", ""), ("SELECT a", " IS NULL", ""), ("SELECT a", " BETWEEN 1 AND 2", ""),
    ("SELECT a", " LIKE b", ""), ("SELECT COUNT(*)", " FILTER (WHERE TRUE)", ""), ("SELECT a", " MULTISET UNION b", ""),
    ("SELECT CASE", " WHEN a THEN b", " END"), ("SELECT CAST(a AS INT", " ARRAY", ")"), ("SELECT f(", "a => ", "1)"),
    ("SELECT CAST(a AS ROW<", "a INT, ", "b INT>)"), ("SELECT JSON_OBJECT(", "'a' VALUE 1, ", "'b' VALUE 1)"),
    ("SELECT 1", " UNION SELECT 1", ""), ("SELECT * FROM t", " JOIN u ON TRUE", ""), ("SELECT * FROM t", ", u", ""),
    ("SELECT 1 GROUP BY ", "CUBE (a), ", "1"), ("VALUES ", "(1), ", "(1)"), ("WITH ", "a AS (SELECT 1), ", "b AS (SELECT 1) SELECT 1"),
    ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a PATTERN (", "A | ", "A) DEFINE A AS TRUE)"),
    ("SELECT * FROM t MATCH_RECOGNIZE (ORDER BY a PATTERN (A", "*", ") DEFINE A AS TRUE)"),
    ("EXECUTE STATEMENT SET BEGIN ", "INSERT INTO t SELECT 1; ", "END"), ("SET ", "a.", "b = 1"), ("RESET ", "a.", "b"),
    ("SELECT 1 EMIT ", "WITHOUT DELAY, ", "WITHOUT DELAY"), ("CREATE TABLE t (a INT", " NOT NULL", ")"),
]  # fmt: skip


@pytest.mark.parametrize("frame", NUMBERS)
def test_huge_numbers(frame: str) -> None:
    bounded(frame.replace("{}", DIGITS).replace("{{", "{").replace("}}", "}"))


@pytest.mark.parametrize(("before", "again", "behind"), REPEATED)
def test_hostile_repetition(before: str, again: str, behind: str) -> None:
    bounded(before + again * TIMES + behind)


@pytest.mark.parametrize("form", ["CREATE TABLE t ({} INT) WITH ('connector' = 'x')", "SELECT {} FROM t AS u ({})",
                                  "SELECT CAST(a AS ROW<{} INT>)", "INSERT INTO t ({}) SELECT 1"])  # fmt: skip
def test_many_names(form: str) -> None:
    between = " INT, " if " INT" in form else ", "
    bounded(form.replace("{}", between.join(f"c{i}" for i in range(TIMES))))


def test_many_options() -> None:
    bounded(
        "CREATE TABLE t (a INT) WITH (" + ", ".join(f"'k{i}' = 'v'" for i in range(TIMES)) + ")"
    )


@pytest.mark.parametrize("text", [bytes(range(256)).decode("latin-1") * 100, "SELECT \ud800", "SELECT '\udfff'", "\ufeffSELECT 1",
                                  "".join(chr(i * 7919 % 0x110000) for i in range(20_000))], ids=range(5))  # fmt: skip
def test_all_characters(text: str) -> None:
    bounded(text)
