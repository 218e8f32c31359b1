"""Operations of several inputs: joins of all kinds, subqueries, WITH."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz.data import Column
from tests.fuzz.forms import COMPARED, EQUAL
from tests.fuzz.ranks import total_order
from tests.fuzz.relation import Making, Relation, of_kind
from tests.fuzz.rows import aggregate, where


def apart(make: Making, relation: Relation) -> tuple[Relation, str, dict[str, str]]:
    """The relation under an alias: with columns of the qualified names, and how those are called
    afterwards."""
    alias = make.name("t")
    columns = tuple(replace(c, name=f"{alias}.{c.name}") for c in relation.columns)
    return (
        Relation(relation.sql, columns, relation.operator),
        alias,
        {c.name: make.name("j") for c in columns},
    )


def _pair(make: Making, left: Relation, right: Relation) -> str | None:
    """An equality of a column of each side."""
    kinds = {c.kind for c in left.columns} & {c.kind for c in right.columns} & set(EQUAL)
    if not kinds:
        return None
    preferred = sorted(kinds & {"STRING", "INT"}) or sorted(kinds)
    equal = _equal(make, left, right, make.rng.choice(preferred))
    if make.chance(0.15):
        equal += f" AND {_equal(make, left, right, make.rng.choice(sorted(kinds)))}"
    return equal


def _equal(make: Making, left: Relation, right: Relation, kind: str) -> str:
    (x,), (y,) = (
        make.keys(of_kind(left.columns, kind), 1, 1),
        make.keys(of_kind(right.columns, kind), 1, 1),
    )
    return f"{x.name} = {y.name}"


def output(
    make: Making, *sides: tuple[Relation, dict[str, str]]
) -> tuple[list[str], tuple[Column, ...]]:
    items, columns = [], []
    for relation, names in sides:
        for column in make.some(relation.columns, 1, 3):
            items.append(f"{column.name} AS {names[column.name]}")
            columns.append(replace(column, name=names[column.name]))
    return items, tuple(columns)


def join(make: Making, depth: int) -> Relation:
    first, second = make.inputs(depth, depth - 1)
    left, a, left_names = apart(make, first)
    right, b, right_names = apart(make, second)
    kind = make.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    on = _pair(make, left, right)
    if on is None:
        on, kind = "TRUE", "JOIN"
    elif make.chance(0.1):
        on = on.replace(" = ", " IS NOT DISTINCT FROM ")
    elif make.chance(0.3):
        on += " AND " + make.expressions.condition((*left.columns, *right.columns), 1)
    items, columns = output(make, (left, left_names), (right, right_names))
    condition = where(make, (*left.columns, *right.columns), 0.15)
    hint = f"/*+ STATE_TTL('{a}' = '1 d', '{b}' = '2 d') */ " if make.chance(0.1) else ""
    sql = (
        f"(SELECT {hint}{', '.join(items)} FROM {left.sql} AS {a} {kind} {right.sql} AS {b} ON"
        f" {on}{condition})"
    )
    return Relation(sql, columns, kind.lower(), None, False, False, True, changes=kind != "JOIN")


def interval_join(make: Making, depth: int) -> Relation:
    first, second = make.inputs(depth, depth - 1, timed=True)
    left, a, left_names = apart(make, first)
    right, b, right_names = apart(make, second)
    kind = make.rng.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    on = _pair(make, left, right) or "TRUE"
    low, high = make.rng.choice(((0, 5), (2, 2), (5, 0), (3, 10), (20, 20)))
    t, u = f"{a}.{first.rowtime}", f"{b}.{second.rowtime}"
    on += f" AND {t} BETWEEN {u} - INTERVAL '{low}' SECOND AND {u} + INTERVAL '{high}' SECOND"
    # one time attribute: Flink takes no others beside it in windows and patterns
    rest = replace(right, columns=tuple(c for c in right.columns if c.name != u))
    items, columns = output(make, (left, left_names), (rest, right_names))
    time = None
    if kind == "JOIN" or make.chance(0.5):
        time = left_names[t]
        if not any(c.name == time for c in columns):
            items, columns = [*items, f"{t} AS {time}"], (*columns, Column(time, "TIMESTAMP"))
    sql = f"(SELECT {', '.join(items)} FROM {left.sql} AS {a} {kind} {right.sql} AS {b} ON {on})"
    return Relation(
        sql,
        columns,
        f"interval {kind.lower()}",
        time if kind == "JOIN" else None,
        False,
        False,
        False,
    )


_WINDOWS = (
    ("TUMBLE", "INTERVAL '5' SECOND"),
    ("TUMBLE", "INTERVAL '10' SECOND"),
    ("TUMBLE", "INTERVAL '30' SECOND"),
    ("TUMBLE", "INTERVAL '10' SECOND, INTERVAL '3' SECOND"),
    ("HOP", "INTERVAL '2' SECOND, INTERVAL '6' SECOND"),
    ("HOP", "INTERVAL '10' SECOND, INTERVAL '20' SECOND, INTERVAL '-1' SECOND"),
    ("CUMULATE", "INTERVAL '3' SECOND, INTERVAL '9' SECOND"),
)


def window_join(make: Making, depth: int) -> Relation:
    first, second = (_plain(make, x) for x in make.inputs(depth, depth - 1, timed=True))
    call, spans = make.rng.choice(_WINDOWS)
    sides = []
    for source in (first, second):
        data = source.sql if source.sql.startswith("(") else f"TABLE {source.sql}"
        sides.append(
            f"(SELECT * FROM TABLE({call}({data}, DESCRIPTOR({source.rowtime}), {spans})))"
        )
    left, a, left_names = apart(make, Relation(sides[0], first.columns))
    right, b, right_names = apart(make, Relation(sides[1], second.columns))
    same = f"{a}.window_start = {b}.window_start AND {a}.window_end = {b}.window_end"
    on = " AND ".join(x for x in (_pair(make, left, right), same) if x)
    if make.chance(0.25):
        word = make.rng.choice(("EXISTS", "NOT EXISTS"))
        items, columns = output(make, (left, left_names))
        make.correlated = True
        query = f"(SELECT 1 FROM {sides[1]} AS {b} WHERE {on})"
        sql = f"(SELECT {', '.join(items)} FROM {sides[0]} AS {a} WHERE {word} {query})"
        return Relation(sql, columns, "window semi join", None, False, False, False)
    kind = make.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    items, columns = output(make, (left, left_names), (right, right_names))
    sql = f"(SELECT {', '.join(items)} FROM {sides[0]} AS {a} {kind} {sides[1]} AS {b} ON {on})"
    return Relation(sql, columns, f"window {kind.lower()}", None, False, False, False)


def _plain(make: Making, source: Relation) -> Relation:
    taken = any(c.name.startswith("window_") for c in source.columns)
    return make.in_time_table() if taken else source


def semi_join(make: Making, depth: int) -> Relation:
    """[NOT] IN and [NOT] EXISTS."""
    source, inner = make.inputs(depth, depth - 1)
    left, a, left_names = apart(make, source)
    right, b, _ = apart(make, inner)
    kinds = sorted({c.kind for c in left.columns} & {c.kind for c in right.columns} & set(EQUAL))
    if not kinds:
        return join(make, depth)
    kind = make.rng.choice(kinds)
    (one,), (other,) = (
        make.keys(of_kind(left.columns, kind), 1, 1),
        make.keys(of_kind(right.columns, kind), 1, 1),
    )
    x, y = one.name, other.name
    negated = make.rng.choice(("", "NOT "))
    extra = f" AND {make.expressions.condition(right.columns, 1)}" if make.chance(0.3) else ""
    # Beside UNNEST and joins as of a time rows wait for a row of NOT IN: those of one without rows
    # never come.
    make.correlated |= bool(negated)
    make.waits |= bool(negated) and " LATERAL (" in right.sql
    make.lost_pattern |= "MATCH_RECOGNIZE" in right.sql
    if make.chance(0.5):
        word = "= ANY" if not negated and make.chance(0.2) else f"{negated}IN"
        condition = f"{x} {word} (SELECT {y} FROM {right.sql} AS {b} WHERE TRUE{extra})".replace(
            " WHERE TRUE AND", " WHERE"
        ).replace(" WHERE TRUE)", ")")
    else:
        mates = {c.kind for c in left.columns} & {c.kind for c in right.columns} & set(COMPARED)
        if mates and make.chance(0.3):
            near = make.rng.choice(sorted(mates))
            one, other = (make.rng.choice(of_kind(side.columns, near)) for side in (left, right))
            extra += f" AND {one.name} {make.expressions.sign()} {other.name}"
        make.correlated = True
        condition = f"{negated}EXISTS (SELECT 1 FROM {right.sql} AS {b} WHERE {x} = {y}{extra})"
    if make.chance(0.2):
        condition += f" AND {make.expressions.condition(left.columns, 1)}"
    items, columns = output(make, (left, left_names))
    sql = f"(SELECT {', '.join(items)} FROM {left.sql} AS {a} WHERE {condition})"
    word = ("anti" if negated else "semi") + (" exists" if "EXISTS (" in condition else " in")
    return Relation(sql, columns, word, None, False, False, True)


def scalar_subquery(make: Making, depth: int) -> Relation:
    """A subquery of one row as a column or in a condition, correlated or not."""
    source, inner = make.inputs(depth, depth - 1)
    left, a, left_names = apart(make, source)
    right, b, _ = apart(make, Relation(inner.sql, inner.columns, ordered=False))
    call, result = aggregate(make, Relation(inner.sql, right.columns, ordered=False))
    make.waits |= " NOT IN (SELECT " in inner.sql
    make.lost_pattern |= "MATCH_RECOGNIZE" in inner.sql
    pair = _pair(make, left, right) if make.chance(0.4) else None
    make.correlated |= pair is not None
    query = f"(SELECT {call} FROM {right.sql} AS {b}{f' WHERE {pair}' if pair else ''})"
    items, columns = output(make, (left, left_names))
    condition = ""
    mates = of_kind(left.columns, result.kind)
    if mates and make.chance(0.5):
        condition = f" WHERE {make.rng.choice(mates).name} {make.expressions.sign()} {query}"
    else:
        items, columns = [*items, f"{query} AS {result.name}"], (*columns, result)
    sql = f"(SELECT {', '.join(items)} FROM {left.sql} AS {a}{condition})"
    return Relation(
        sql, columns, "correlated scalar" if pair else "scalar", None, False, False, True
    )


def lateral(make: Making, depth: int) -> Relation:
    """A subquery in FROM that reads the relation on its left: its rows, or aggregates of them."""
    source, inner = make.inputs(depth, depth - 1)
    left, a, left_names = apart(make, source)
    right, b, _ = apart(make, Relation(inner.sql, inner.columns, ordered=False))
    pair = _pair(make, left, right)
    if pair is None:
        return join(make, depth)
    if make.chance(0.5):
        call, result = aggregate(make, Relation(inner.sql, right.columns, ordered=False))
        found: tuple[Column, ...] = (result,)
        items, first = [f"{call} AS {result.name}"], ""
    else:
        items, found = output(make, (right, {c.name: make.name("l") for c in right.columns}))
        by = total_order(make, Relation("", found, updating=True), [])
        first = (
            f" ORDER BY {', '.join(by)} LIMIT {make.rng.randint(2, 3)}"
            if by and make.chance(0.4)
            else ""
        )
    condition = f" AND {make.expressions.condition(right.columns, 1)}" if make.chance(0.3) else ""
    make.correlated = True
    make.lost_pattern |= "MATCH_RECOGNIZE" in inner.sql
    query = f"(SELECT {', '.join(items)} FROM {right.sql} AS {b} WHERE {pair}{condition}{first})"
    own, columns = output(make, (left, left_names))
    alias, names = make.name("t"), [c.name for c in found]
    word, on = make.rng.choice((("CROSS JOIN", ""), ("LEFT JOIN", " ON TRUE")))
    sql = (
        f"(SELECT {', '.join([*own, *names])} FROM {left.sql} AS {a} {word} LATERAL {query} AS"
        f" {alias}{on})"
    )
    return Relation(sql, (*columns, *found), "lateral", None, False, False, True)


def common(make: Making, depth: int) -> Relation:
    """WITH: a query that is used twice."""
    (source,) = make.inputs(depth)
    name = make.name("cte")
    held = Relation(name, source.columns)
    left, a, left_names = apart(make, held)
    right, b, right_names = apart(make, held)
    on = _pair(make, left, right)
    if on is None:
        return source
    items, columns = output(make, (left, left_names), (right, right_names))
    body = source.sql if source.sql.startswith("(") else f"(SELECT * FROM {source.sql})"
    sql = (
        f"(WITH {name} AS {body} SELECT {', '.join(items)} FROM {name} AS {a} JOIN {name} AS {b} ON"
        f" {on})"
    )
    return Relation(sql, columns, "with", None, False, False, True)
