"""Nodes of expressions that sqlglot has no class for."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class Verbatim(exp.Expression):
    """SQL that is written already."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Plus(exp.Expression):
    """+a: it changes nothing but that a column loses its name."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class SafeCast(exp.Expression):
    """SAFE_CAST(this AS to), which Flink parses and does not know."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "to": True}


class Unique(exp.Expression):
    """UNIQUE (query)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class FormatJson(exp.Expression):
    """a FORMAT JSON."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class MultisetOperation(exp.Expression):
    """a MULTISET UNION | INTERSECT | EXCEPT [DISTINCT] b; `kind` is the second word."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expression": True,
        "kind": True,
        "distinct": False,
    }


class MemberOf(exp.Expression):
    """a MEMBER OF b."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class SubmultisetOf(exp.Expression):
    """a SUBMULTISET OF b."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class PeriodPredicate(exp.Expression):
    """a CONTAINS | EQUALS | [IMMEDIATELY] PRECEDES | [IMMEDIATELY] SUCCEEDS b; `kind` has `_` for a
    space."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "kind": True}


class Difference(exp.Expression):
    """(a - b) unit: the time between two times, as an interval."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True, "unit": True}


class SequenceValue(exp.Expression):
    """NEXT | CURRENT (`kind`) VALUE FOR sequence."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class New(exp.Expression):
    """NEW f(…)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class CursorOf(exp.Expression):
    """CURSOR(query)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Jdbc(exp.Expression):
    """{fn f(…)}."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Modified(exp.Expression):
    """RUNNING | FINAL (`kind`) f(…), in MATCH_RECOGNIZE."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "kind": True}


class Model(exp.Expression):
    """MODEL [catalog.][database.]name as an argument."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "db": False, "catalog": False}


class Separator(exp.Expression):
    """SEPARATOR 'text' at the end of GROUP_CONCAT."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class Sample(exp.Expression):
    """TABLESAMPLE BERNOULLI | SYSTEM (size) [REPEATABLE (seed)], or SUBSTITUTE ('name')."""

    arg_types: ClassVar[dict[str, bool]] = {"method": True, "size": True, "seed": False}


class Extension(exp.Expression):
    """EXTEND (name type, …): columns that a table has beside its own. `this` is a column's path,
    `to` its type."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "to": True}


class Pivot(exp.Expression):
    """PIVOT (aggregates FOR columns IN (values)); a value is an expression or a Tuple, perhaps in
    an Alias."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True, "columns": True, "values": True}


class Unpivot(exp.Expression):
    """UNPIVOT [INCLUDE NULLS] (expressions FOR columns IN (values)); `nulls` is INCLUDE, EXCLUDE or
    absent."""

    arg_types: ClassVar[dict[str, bool]] = {
        "expressions": True,
        "columns": True,
        "values": True,
        "nulls": False,
    }


class UnpivotValue(exp.Expression):
    """(columns) [AS (values)]."""

    arg_types: ClassVar[dict[str, bool]] = {"columns": True, "values": False}


class Skip(exp.Expression):
    """AFTER MATCH SKIP TO NEXT ROW, PAST LAST ROW, TO FIRST a, TO LAST a: `kind` NEXT, PAST, FIRST,
    LAST."""

    arg_types: ClassVar[dict[str, bool]] = {"kind": True, "this": False}


class PatternSequence(exp.Expression):
    """a b c; a variable is an Identifier, a group in parentheses a Paren."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class PatternChoice(exp.Expression):
    """a | b | c."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class PatternRepeat(exp.Expression):
    """a*, a+, a?, a{low, high}: bounds are Literals, a missing one is not there; `reluctant` with
    another ? behind."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "low": False,
        "high": False,
        "reluctant": False,
    }


class PatternExclusion(exp.Expression):
    """{- a -}."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class PatternAbsence(exp.Expression):
    """[^ a]: no row is an a."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class PatternPermutation(exp.Expression):
    """PERMUTE (a, b)."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class PatternSubset(exp.Expression):
    """SUBSET this = (expressions)."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": True}
