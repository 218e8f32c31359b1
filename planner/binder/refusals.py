"""Errors for what Flink has and this version has not.

Each names the construct, its place and the alternative."""

from __future__ import annotations

from sqlglot import exp

from parser import nodes
from parser.dialect import position_of
from parser.errors import PlanError, UnsupportedError
from parser.types import DataType, Root
from planner.binder.queries.grouping_sets import FUNCTIONS
from udf.aggregates.registry import aggregate_names

APPROXIMATE = "APPROX_COUNT_DISTINCT"
AGGREGATES = frozenset(n for n in aggregate_names() if " " not in n) | {APPROXIMATE}
WINDOW_BOUNDS = frozenset(
    f"{w}_{s}"
    for w in ("TUMBLE", "HOP", "SESSION")
    for s in ("START", "END", "ROWTIME", "PROCTIME")
)
_WINDOWS = frozenset({"TUMBLE", "HOP", "SESSION", "CUMULATE"})

_KNOWN = f"{', '.join(sorted(AGGREGATES))} are there"
# Functions that stand with OVER only.
OVER_FUNCTIONS = frozenset(
    "ROW_NUMBER RANK DENSE_RANK PERCENT_RANK CUME_DIST NTILE LAG LEAD SUPPRESSED REACHED".split()
)
_OTHER_AGGREGATES = {"SUM0": _KNOWN}
# Functions that stand within MATCH_RECOGNIZE only.
PATTERN_FUNCTIONS = frozenset(
    "FIRST LAST PREV NEXT MATCH_ROWTIME MATCH_PROCTIME MATCH_NUMBER CLASSIFIER".split()
)
# Names of calls that are no scalar functions.
NOT_SCALAR = (
    AGGREGATES
    | FUNCTIONS
    | OVER_FUNCTIONS
    | WINDOW_BOUNDS
    | _WINDOWS
    | frozenset(_OTHER_AGGREGATES)
    | PATTERN_FUNCTIONS
)

_EXPRESSIONS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.Subquery: ("a subquery", "compute the value in a query below, or write it as a literal"),
    exp.Window: ("OVER", "aggregate by windows: GROUP BY TUMBLE(…)"),
    exp.Tuple: ("a row of several values", "compare the columns one by one with AND"),
    exp.Bracket: (
        "access by index or key",
        "select the value into a column of its own at the source",
    ),
    exp.Dot: ("access to a field", "declare the field as a column of its own"),
    exp.Overlaps: ("OVERLAPS", "compare the bounds: a_start < b_end AND b_start < a_end"),
    exp.IgnoreNulls: ("IGNORE NULLS", "filter with FILTER (WHERE x IS NOT NULL)"),
    exp.RespectNulls: ("RESPECT NULLS", "leave it out"),
    exp.Kwarg: ("an argument by name", "give the arguments by position"),
    exp.Star: ("*", "name the columns"),
    exp.ILike: ("ILIKE", "write LOWER(a) LIKE 'pattern in lower case'"),
    exp.RegexpLike: ("RLIKE", "write REGEXP(a, 'pattern')"),
    exp.WithinGroup: ("WITHIN GROUP", "order the rows in a query below"),
    exp.Order: ("ORDER BY in a call", "order the rows in a query below"),
    exp.Placeholder: ("a parameter '?'", "write the value"),
    exp.Distinct: ("DISTINCT", "leave it out"),
    nodes.SafeCast: ("SAFE_CAST", "use TRY_CAST"),
    nodes.Unique: ("UNIQUE", "count the rows in a query below"),
    nodes.FormatJson: ("FORMAT JSON", "wrap the text in JSON(…)"),
    nodes.MultisetOperation: ("MULTISET UNION, INTERSECT and EXCEPT", "use functions of arrays"),
    nodes.MemberOf: ("MEMBER OF", "use ARRAY_CONTAINS"),
    nodes.SubmultisetOf: ("SUBMULTISET OF", "use functions of arrays"),
    nodes.PeriodPredicate: (
        "a predicate of periods",
        "compare the bounds: a_start < b_end AND b_start < a_end",
    ),
    nodes.SequenceValue: (
        "VALUE FOR a sequence",
        "use ROW_NUMBER, or number the events at their source",
    ),
    nodes.New: ("NEW", "use ROW(…)"),
    nodes.CursorOf: ("CURSOR", "use a table argument: TABLE t"),
    nodes.Modified: ("RUNNING and FINAL", "they belong to MATCH_RECOGNIZE"),
    nodes.Model: ("MODEL", "call a Python function: CREATE FUNCTION … LANGUAGE PYTHON"),
    nodes.Separator: ("SEPARATOR", "give it as an argument"),
}


def of_expression(
    node: exp.Expression, what: str | None = None, hint: str | None = None
) -> UnsupportedError:
    known = _EXPRESSIONS.get(type(node), (f"'{node.key}'", None))
    return UnsupportedError(
        f"{what or known[0]} is not supported here",
        hint=hint or known[1],
        position=position_of(node),
    )


def of_field(node: exp.Expression) -> UnsupportedError:
    return UnsupportedError(
        f"access to field '{node.name}' of a row is not supported",
        hint="declare the field as a column of its own",
        position=position_of(node),
    )


def of_special(node: exp.Expression, clause: str) -> PlanError:
    """An aggregate or window function where there is none."""
    name = node.name.upper()
    if name in _OTHER_AGGREGATES:
        hint = _OTHER_AGGREGATES[name]
        return UnsupportedError(f"{name} is not supported", hint=hint, position=position_of(node))
    if name in PATTERN_FUNCTIONS:
        hint = "it belongs to MEASURES and DEFINE of MATCH_RECOGNIZE"
        return PlanError(f"{name} cannot stand in {clause}", hint=hint, position=position_of(node))
    if name in AGGREGATES:
        hint = (
            "filter aggregates with HAVING" if clause == "WHERE" else "aggregate in a query below"
        )
        return PlanError(
            f"the aggregate {name} cannot stand in {clause}", hint=hint, position=position_of(node)
        )
    if name in OVER_FUNCTIONS:
        hint = f"write {name}(…) OVER (PARTITION BY … ORDER BY …)"
        return PlanError(f"{name} stands with OVER only", hint=hint, position=position_of(node))
    if name in FUNCTIONS:
        return PlanError(
            f"{name} stands outside of a query with GROUP BY", position=position_of(node)
        )
    window = name.partition("_")[0]
    if name == "CUMULATE":
        hint = "use TABLE(CUMULATE(TABLE t, DESCRIPTOR(time column), step, size))"
        return PlanError("CUMULATE is a table function", hint=hint, position=position_of(node))
    hint = f"group by {window}(time column, …) in the same query"
    return PlanError(
        f"{name} stands outside of a query that groups by {window}",
        hint=hint,
        position=position_of(node),
    )


def of_subquery(node: exp.Expression, clause: str) -> UnsupportedError:
    """A subquery where there can be none."""
    hint = "put it into SELECT, WHERE, GROUP BY, HAVING or ON, or join the query"
    return UnsupportedError(
        f"a subquery in {clause} is not supported", hint=hint, position=position_of(node)
    )


def check_arguments(node: exp.Expression) -> None:
    for argument in node.expressions:
        if isinstance(argument, exp.Kwarg | exp.Star):
            raise of_expression(argument)
        if isinstance(argument, exp.Var) and argument.name == "DEFAULT":
            hint = "leave out the arguments at the end, or write their values"
            raise UnsupportedError(
                "DEFAULT as an argument is not supported", hint=hint, position=position_of(argument)
            )
        if isinstance(argument, exp.Distinct):
            raise PlanError(
                f"DISTINCT is for aggregates, and {node.name} is none",
                position=position_of(argument),
            )


_CLAUSES = {
    "laterals": ("LATERAL", "use scalar functions"),
    "version": (
        "FOR SYSTEM_TIME AS OF here",
        "JOIN the table, or ask for it in WHERE: [NOT] EXISTS or IN (SELECT … FROM it FOR …)",
    ),
    "pivots": ("PIVOT", "write one aggregate with FILTER (WHERE …) per column"),
    "sample": ("TABLESAMPLE", "filter by a hash of the key, such as MOD(id, 10) = 0"),
    "extend": ("EXTEND", "declare the columns in CREATE TABLE"),
}


def check_clauses(node: exp.Expression) -> None:
    """Refuses the clauses of a query or relation that are not there yet."""
    for key, (what, hint) in _CLAUSES.items():
        clause = node.args.get(key)
        if not clause or clause is True:  # `distinct` of a set operation is a plain bool
            continue
        first = clause[0] if isinstance(clause, list) else clause
        where = position_of(first) or position_of(node)
        raise UnsupportedError(f"{what} is not supported", hint=hint, position=where)
    _check_words(node)


def _check_words(node: exp.Expression) -> None:
    """Refuses what a single word says: STREAM, GROUP BY DISTINCT."""
    words = (
        (
            node.args.get("kind") == "STREAM",
            "SELECT STREAM",
            "all queries over streams are continuous: leave it out",
        ),
        (_flag(node, "group", "distinct"), "GROUP BY DISTINCT", "leave out what comes twice"),
    )
    for found, what, hint in words:
        if found:
            raise UnsupportedError(
                f"{what} is not supported", hint=hint, position=position_of(node)
            )


def check_recursion(cte: exp.Expression) -> None:
    """Refuses a common table of WITH RECURSIVE whose UNION reads itself. Any other means what it
    would mean without the word."""
    body = cte.this
    tables = body.find_all(exp.Table) if isinstance(body, exp.Union) else ()
    own = [t for t in tables if t.name == cte.alias and not t.db]
    if own:
        hint = "unroll it: Flink runs no recursive queries either"
        raise UnsupportedError(
            "recursion is not supported", hint=hint, position=position_of(own[0])
        )


def _flag(node: exp.Expression, clause: str, word: str) -> bool:
    clause_node = node.args.get(clause)
    return isinstance(clause_node, exp.Expression) and bool(clause_node.args.get(word))


_RELATIONS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.Lateral: ("LATERAL", "use scalar functions"),
}


def of_relation(node: exp.Expression) -> UnsupportedError:
    what, hint = _RELATIONS.get(
        type(node), (f"'{node.key}' in FROM", "read from a table, view or query")
    )
    return UnsupportedError(f"{what} is not supported", hint=hint, position=position_of(node))


def of_table_function(node: exp.Expression) -> PlanError:
    hint = (
        "TABLE(TUMBLE(TABLE t, DESCRIPTOR(time column), INTERVAL '1' MINUTE)), HOP, CUMULATE and"
        " SESSION are there"
    )
    return UnsupportedError(
        f"table function {node.name} is not supported", hint=hint, position=position_of(node)
    )


def not_grouped(name: str, node: exp.Expression) -> PlanError:
    column = next((c for c in node.find_all(exp.Column) if c.name == name), node)
    return PlanError(
        f"column '{name}' is neither grouped nor aggregated",
        hint=f"add it to GROUP BY, or aggregate it: MAX({name})",
        position=position_of(column),
    )


def check_distinct(kind: DataType, node: exp.Expression, *, batch: bool) -> None:
    """Refuses to tell values apart that Flink has no order of; in batch mode it has one of rows."""
    if kind.root in (Root.MAP, Root.MULTISET) or (kind.root is Root.ROW and not batch):
        hint = "take parts of it, or CAST(… AS STRING)"
        raise PlanError(
            f"DISTINCT is not there for {kind.plain}", hint=hint, position=position_of(node)
        )
