"""Operations of several inputs: joins of all kinds, subqueries, WITH."""

from __future__ import annotations

from tests.fuzz.data import Column
from tests.fuzz.relation import Making, Relation, of_kind
from tests.fuzz.rows import aggregate, where
from tests.fuzz.windows import timed

_EQUAL = ("STRING", "INT", "BIGINT", "DECIMAL", "DATE", "TIMESTAMP", "BOOLEAN")


def _apart(make: Making, relation: Relation) -> tuple[Relation, str, dict[str, str]]:
    """The relation under an alias: with columns of the qualified names, and how those are called afterwards."""
    alias = make.name("t")
    columns = tuple(Column(f"{alias}.{c.name}", c.kind) for c in relation.columns)
    return Relation(relation.sql, columns, relation.operator), alias, {c.name: make.name("j") for c in columns}


def _pair(make: Making, left: Relation, right: Relation) -> str | None:
    """An equality of a column of each side."""
    kinds = {c.kind for c in left.columns} & {c.kind for c in right.columns} & set(_EQUAL)
    if not kinds:
        return None
    preferred = sorted(kinds & {"STRING", "INT"}) or sorted(kinds)
    kind = make.rng.choice(preferred)
    return f"{make.rng.choice(of_kind(left.columns, kind)).name} = {make.rng.choice(of_kind(right.columns, kind)).name}"


def _output(make: Making, *sides: tuple[Relation, dict[str, str]]) -> tuple[list[str], tuple[Column, ...]]:
    items, columns = [], []
    for relation, names in sides:
        for column in make.some(relation.columns, 1, 3):
            items.append(f"{column.name} AS {names[column.name]}")
            columns.append(Column(names[column.name], column.kind))
    return items, tuple(columns)


def join(make: Making, depth: int) -> Relation:
    before, make.in_time = make.in_time, True
    left, a, left_names = _apart(make, make.input(depth))
    right, b, right_names = _apart(make, make.input(depth - 1))
    make.in_time = before
    kind = make.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    on = _pair(make, left, right)
    if on is None:
        on, kind = "TRUE", "JOIN"
    elif make.chance(0.3):
        on += " AND " + make.expressions.condition((*left.columns, *right.columns), 1)
    items, columns = _output(make, (left, left_names), (right, right_names))
    condition = where(make, (*left.columns, *right.columns), 0.25)
    sql = f"(SELECT {', '.join(items)} FROM {left.sql} AS {a} {kind} {right.sql} AS {b} ON {on}{condition})"
    return Relation(sql, columns, kind.lower(), None, False, False, True)


def interval_join(make: Making, depth: int) -> Relation:
    before, make.in_time = make.in_time, True
    first, second = timed(make, depth), timed(make, depth - 1)
    make.in_time = before
    left, a, left_names = _apart(make, first)
    right, b, right_names = _apart(make, second)
    kind = make.rng.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    on = _pair(make, left, right) or "TRUE"
    low, high = make.rng.choice(((0, 5), (2, 2), (5, 0), (3, 10)))
    t, u = f"{a}.{first.rowtime}", f"{b}.{second.rowtime}"
    on += f" AND {t} BETWEEN {u} - INTERVAL '{low}' SECOND AND {u} + INTERVAL '{high}' SECOND"
    items, columns = _output(make, (left, left_names), (right, right_names))
    time = None
    if kind == "JOIN" or make.chance(0.5):
        time = left_names[t]
        if not any(c.name == time for c in columns):
            items, columns = [*items, f"{t} AS {time}"], (*columns, Column(time, "TIMESTAMP"))
    sql = f"(SELECT {', '.join(items)} FROM {left.sql} AS {a} {kind} {right.sql} AS {b} ON {on})"
    return Relation(sql, columns, f"interval {kind.lower()}", time if kind == "JOIN" else None, False, False, False)


def window_join(make: Making, depth: int) -> Relation:
    before, make.in_time = make.in_time, True
    first = _plain(make, timed(make, depth))
    second = _plain(make, timed(make, depth - 1))
    make.in_time = before
    size = make.rng.choice((5, 10))
    call = "TABLE(TUMBLE({}, DESCRIPTOR({}), INTERVAL '{}' SECOND))"
    sides = []
    for source in (first, second):
        data = source.sql if source.sql.startswith("(") else f"TABLE {source.sql}"
        sides.append(f"(SELECT * FROM {call.format(data, source.rowtime, size)})")
    left, a, left_names = _apart(make, Relation(sides[0], first.columns))
    right, b, right_names = _apart(make, Relation(sides[1], second.columns))
    same = f"{a}.window_start = {b}.window_start AND {a}.window_end = {b}.window_end"
    on = " AND ".join(x for x in (_pair(make, left, right), same) if x)
    if make.chance(0.25):
        word = make.rng.choice(("EXISTS", "NOT EXISTS"))
        items, columns = _output(make, (left, left_names))
        query = f"(SELECT 1 FROM {sides[1]} AS {b} WHERE {on})"
        sql = f"(SELECT {', '.join(items)} FROM {sides[0]} AS {a} WHERE {word} {query})"
        return Relation(sql, columns, "window semi join", None, False, False, False)
    kind = make.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
    items, columns = _output(make, (left, left_names), (right, right_names))
    sql = f"(SELECT {', '.join(items)} FROM {sides[0]} AS {a} {kind} {sides[1]} AS {b} ON {on})"
    return Relation(sql, columns, f"window {kind.lower()}", None, False, False, False)


def _plain(make: Making, source: Relation) -> Relation:
    taken = any(c.name.startswith("window_") for c in source.columns)
    return make.table(timed=True) if taken else source


def semi_join(make: Making, depth: int) -> Relation:
    """[NOT] IN and [NOT] EXISTS."""
    before, make.in_time = make.in_time, True
    source, inner = make.input(depth), make.input(depth - 1)
    make.in_time = before
    left, a, left_names = _apart(make, source)
    right, b, _ = _apart(make, inner)
    kinds = sorted({c.kind for c in left.columns} & {c.kind for c in right.columns} & set(_EQUAL))
    if not kinds:
        return join(make, depth)
    kind = make.rng.choice(kinds)
    x, y = make.rng.choice(of_kind(left.columns, kind)).name, make.rng.choice(of_kind(right.columns, kind)).name
    negated = make.rng.choice(("", "NOT "))
    extra = f" AND {make.expressions.condition(right.columns, 1)}" if make.chance(0.3) else ""
    if make.chance(0.5):
        condition = f"{x} {negated}IN (SELECT {y} FROM {right.sql} AS {b} WHERE TRUE{extra})".replace(
            " WHERE TRUE AND", " WHERE"
        ).replace(" WHERE TRUE)", ")")
    else:
        condition = f"{negated}EXISTS (SELECT 1 FROM {right.sql} AS {b} WHERE {x} = {y}{extra})"
    if make.chance(0.2):
        condition += f" AND {make.expressions.condition(left.columns, 1)}"
    items, columns = _output(make, (left, left_names))
    sql = f"(SELECT {', '.join(items)} FROM {left.sql} AS {a} WHERE {condition})"
    word = ("anti" if negated else "semi") + (" in" if " IN (" in condition else " exists")
    return Relation(sql, columns, word, None, False, False, True)


def scalar_subquery(make: Making, depth: int) -> Relation:
    """A subquery of one row as a column or in a condition, correlated or not."""
    before, make.in_time = make.in_time, True
    source, inner = make.input(depth), make.input(depth - 1)
    make.in_time = before
    left, a, left_names = _apart(make, source)
    right, b, _ = _apart(make, Relation(inner.sql, inner.columns, ordered=False))
    call, result = aggregate(make, Relation(inner.sql, right.columns, ordered=False))
    pair = _pair(make, left, right) if make.chance(0.4) else None
    query = f"(SELECT {call} FROM {right.sql} AS {b}{f' WHERE {pair}' if pair else ''})"
    items, columns = _output(make, (left, left_names))
    condition = ""
    mates = of_kind(left.columns, result.kind)
    if mates and make.chance(0.5):
        condition = f" WHERE {make.rng.choice(mates).name} {make.expressions.sign()} {query}"
    else:
        items, columns = [*items, f"{query} AS {result.name}"], (*columns, result)
    sql = f"(SELECT {', '.join(items)} FROM {left.sql} AS {a}{condition})"
    return Relation(sql, columns, "correlated scalar" if pair else "scalar", None, False, False, True)


def common(make: Making, depth: int) -> Relation:
    """WITH: a query that is used twice."""
    before, make.in_time = make.in_time, True
    source = make.input(depth)
    make.in_time = before
    name = make.name("cte")
    held = Relation(name, source.columns)
    left, a, left_names = _apart(make, held)
    right, b, right_names = _apart(make, held)
    on = _pair(make, left, right)
    if on is None:
        return source
    items, columns = _output(make, (left, left_names), (right, right_names))
    body = source.sql if source.sql.startswith("(") else f"(SELECT * FROM {source.sql})"
    sql = f"(WITH {name} AS {body} SELECT {', '.join(items)} FROM {name} AS {a} JOIN {name} AS {b} ON {on})"
    return Relation(sql, columns, "with", None, False, False, True)
