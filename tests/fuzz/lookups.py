"""Operations as of a time: versions of tables, look-ups, and what goes by processing time without
showing it."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz.data import Column
from tests.fuzz.forms import COMPARED, KEYS
from tests.fuzz.joins import apart, output
from tests.fuzz.patterns import matched
from tests.fuzz.relation import Making, Relation, of_kind
from tests.fuzz.windows import ROWS, over_calls


def temporal_join(make: Making, depth: int) -> Relation:
    """The version that held at the row's time, of a table or of a view of the last rows."""
    mark = make.mark()
    (source,) = make.inputs(depth, timed=True)
    keys = make.keys(of_kind(source.columns, "STRING"), 1, 1)
    if not keys:
        make.drop(mark)
        source = make.in_time_table()
        keys = make.keys(of_kind(source.columns, "STRING"), 1, 1)
    table = make.only(make.rng.choice(("versions", "newest")))
    left, a, left_names = apart(make, source)
    right, b, right_names = apart(make, Relation(table.name, table.columns))
    time = f"{a}.{source.rowtime}"
    on = f"{a}.{keys[0].name} = {b}.k"
    if make.chance(0.3):
        on += f" AND {make.expressions.condition((*left.columns, *right.columns), 1)}"
    items, columns = output(make, (left, left_names), (right, right_names))
    if all(c.name != left_names[time] for c in columns):
        items, columns = (
            [*items, f"{time} AS {left_names[time]}"],
            (*columns, Column(left_names[time], "TIMESTAMP")),
        )
    kind = make.rng.choice(("JOIN", "LEFT JOIN"))
    joined = f"{left.sql} AS {a} {kind} {table.name} FOR SYSTEM_TIME AS OF {time} AS {b} ON {on}"
    sql = f"(SELECT {', '.join(items)} FROM {joined})"
    return Relation(sql, columns, f"temporal {kind.lower()}", left_names[time], False, False, False)


def look_up(make: Making, depth: int) -> Relation:
    """What a table holds when the row comes."""
    source = make.input(depth)
    table = make.only("look-up")
    left, a, left_names = apart(make, with_clock(make, source))
    right, b, right_names = apart(make, Relation(table.name, table.columns))
    fitting = [c for c in left.columns if c.kind in ("STRING", "INT")]
    if not fitting:
        return source
    (key,) = make.keys(fitting, 1, 1)
    on = f"{key.name} = {b}.{'k' if key.kind == 'STRING' else make.rng.choice(('v', 'r'))}"
    if make.chance(0.3):
        on += f" AND {make.expressions.condition(right.columns, 1)}"
    items, columns = output(make, (left, left_names), (right, right_names))
    kind = make.rng.choice(("JOIN", "LEFT JOIN"))
    joined = f"{left.sql} AS {a} {kind} {table.name} FOR SYSTEM_TIME AS OF {a}.clock AS {b} ON {on}"
    sql = f"(SELECT {', '.join(items)} FROM {joined})"
    return Relation(sql, columns, f"look-up {kind.lower()}", None, False, False, source.updating)


def with_clock(make: Making, source: Relation) -> Relation:
    """The relation with a column of processing time, which is none of those that the query
    shows."""
    names = ", ".join(c.name for c in source.columns)
    return replace(source, sql=f"(SELECT {names}, PROCTIME() AS clock FROM {source.sql})")


def by_clock(make: Making, depth: int) -> Relation:
    """Deduplication, OVER and patterns in the order in which rows come."""
    mark = make.mark()
    source = make.input(depth)
    if not source.ordered or not of_kind(source.columns, *COMPARED):
        source = make.instead(mark)
    held = with_clock(make, source)
    roll = make.rng.random()
    if roll < 0.35:
        return replace(
            matched(make, replace(held, rowtime=None), "clock"), operator="match by clock"
        )
    keys = make.keys(of_kind(source.columns, *KEYS), 1, 2)
    partition = f"PARTITION BY {', '.join(k.name for k in keys)} " if keys else ""
    if roll < 0.7 or not keys:
        return _over(make, held, partition)
    direction = make.rng.choice(("", " ASC", " DESC"))
    rank, names = make.name("n"), ", ".join(c.name for c in source.columns)
    inner = (
        f"(SELECT *, ROW_NUMBER() OVER ({partition}ORDER BY clock{direction}) AS {rank} FROM"
        f" {held.sql})"
    )
    last = direction == " DESC"
    sql = f"(SELECT {names} FROM {inner} WHERE {rank} = 1)"
    name = "dedup by clock"
    # Flink tells of an equal row that comes in another millisecond
    return Relation(sql, source.columns, name, None, not last, not last, last, changes=last)


def _over(make: Making, source: Relation, partition: str) -> Relation:
    calls, frame = over_calls(make, source, True), make.rng.choice(ROWS)
    columns = make.some(source.columns, 1, 3)
    items = [c.name for c in columns]
    for _ in range(make.rng.randint(1, 2)):
        text, kind = make.rng.choice(calls)
        columns.append(Column(make.name("o"), kind))
        plain = text.startswith(("LAG", "ROW_NUMBER"))
        items.append(
            f"{text} OVER ({partition}ORDER BY clock{'' if plain else ' ' + frame}) AS"
            f" {columns[-1].name}"
        )
    sql = f"(SELECT {', '.join(items)} FROM {source.sql})"
    return Relation(sql, tuple(columns), "over by clock", None, True, True, False)
