"""MATCH_RECOGNIZE over a relation with a time attribute, or by processing time."""

from __future__ import annotations

from tests.fuzz.data import Column
from tests.fuzz.forms import COMPARED, KEYS, NUMBERS
from tests.fuzz.relation import Making, Relation, of_kind

# What Flink takes: no greedy variable at the end, nothing optional behind a greedy one.
_PATTERNS = (
    "A B",
    "A B C",
    "A B+ C",
    "A B+? C",
    "A B* C",
    "A B*? C",
    "A B? C",
    "A B{2} C",
    "A B{2,} C",
    "A B{1,3} C",
    "A B{1,3}? C{1,2}?",
    "A B{0,2}? C",
    "A+ B",
    "A+? B{2,3}?",
    "A{2,}? B C",
    "A? B* C",
    "A* B{2,} C",
)
_SKIPS = ("", "AFTER MATCH SKIP TO NEXT ROW ", "AFTER MATCH SKIP PAST LAST ROW ")
_BACK = ("AFTER MATCH SKIP TO LAST B ", "AFTER MATCH SKIP TO FIRST B ", "AFTER MATCH SKIP TO B ")


def match(make: Making, depth: int) -> Relation:
    source = make.timed(depth)
    return matched(make, source, str(source.rowtime))


def matched(make: Making, source: Relation, time: str) -> Relation:
    """The matches of a pattern in the order of the column `time`."""
    keys = make.keys([c for c in of_kind(source.columns, *KEYS) if c.name != time], 0, 1)
    order = [time]
    if not source.ordered:
        rest = [c for c in of_kind(source.columns, *COMPARED, "BOOLEAN") if c.name != time]
        order += [c.name + make.rng.choice(("", " DESC")) for c in rest]
    pattern = make.rng.choice(_PATTERNS)
    back = (
        _BACK if pattern.startswith("A B") and "B*" not in pattern and "B?" not in pattern else ()
    )
    skip = make.rng.choice((*_SKIPS, *(() if "{0" in pattern else back)))
    within = (
        f" WITHIN INTERVAL '{make.rng.choice((3, 10, 30))}' SECOND" if make.chance(0.35) else ""
    )
    items, columns = _measures(make, source, pattern)
    lasting = set(pattern) <= set("ABC ") and "PAST" in skip
    rowtime = None
    if time == source.rowtime and (lasting or make.level == 1) and make.chance(0.8):
        rowtime = make.name("rt")
        items.append(f"MATCH_ROWTIME() AS {rowtime}")
        columns.append(Column(rowtime, "TIMESTAMP"))
    defined = [v for v in "ABC" if v in pattern and make.chance(0.6)] or ["A"]
    define = ", ".join(f"{v} AS {_condition(make, source, v, pattern)}" for v in defined)
    by = f"PARTITION BY {keys[0].name} " if keys else ""
    sql = (
        f"(SELECT * FROM {source.sql} MATCH_RECOGNIZE ({by}ORDER BY {', '.join(order)} MEASURES"
        f" {', '.join(items)} ONE ROW PER MATCH {skip}PATTERN ({pattern}){within} DEFINE {define}))"
    )
    return Relation(
        sql, (*keys, *columns), "match", rowtime if lasting else None, False, False, False
    )


def _measures(make: Making, source: Relation, pattern: str) -> tuple[list[str], list[Column]]:
    """Only columns of tables are looked for in rows that may not be there: of one that is never
    NULL Flink gives -1."""
    items, columns = [], []
    fitting = of_kind(source.columns, *COMPARED)
    numbers = [c for c in of_kind(source.columns, *NUMBERS) if _of_table(c)]
    for _ in range(make.rng.randint(1, 3)):
        variable = make.rng.choice([v for v in "ABC" if v in pattern])
        one = make.rng.choice(fitting)
        forms = [(f"COUNT({variable}.{one.name})", "BIGINT"), (one.name, one.kind)]
        if _of_table(one):
            calls = ("{}", "FIRST({})", "LAST({})", "LAST({}, 1)", "FIRST({}, 1)")
            forms += [(call.format(f"{variable}.{one.name}"), one.kind) for call in calls]
        if numbers:
            number = make.rng.choice(numbers)
            forms += [
                (f"{word}({variable}.{number.name})", number.kind)
                for word in ("SUM", "AVG", "MIN", "MAX")
            ]
        text, kind = make.rng.choice(forms)
        columns.append(Column(make.name("m"), kind))
        items.append(f"{text} AS {columns[-1].name}")
    return items, columns


def _of_table(column: Column) -> bool:
    return not column.name.endswith("x") and not column.name.startswith("window_")


def _condition(make: Making, source: Relation, variable: str, pattern: str) -> str:
    """What a row of the variable fulfils, or what it is beside other rows."""
    fitting = of_kind(source.columns, *COMPARED)
    chosen = make.rng.choice(fitting)
    one = chosen.name
    roll = make.rng.random()
    if roll < 0.2 and _of_table(chosen):
        return (
            f"{variable}.{one} {make.expressions.sign()} LAST({variable}.{one}, 1) OR"
            f" LAST({variable}.{one}, 1) IS NULL"
        )
    if roll < 0.4 and variable > "A":
        return (
            f"{variable}.{one} {make.expressions.sign()}"
            f" {make.rng.choice(('A', 'LAST(A', 'FIRST(A'))}.{one}".replace(
                f"(A.{one}", f"(A.{one})"
            )
        )
    scope = [Column(f"{variable}.{c.name}", c.kind) for c in fitting]
    return make.expressions.condition(scope, 1)
