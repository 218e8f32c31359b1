"""Operations of event time: windows, windows of windows, OVER, deduplication."""

from __future__ import annotations

from dataclasses import replace

from tests.fuzz.data import Column
from tests.fuzz.forms import COMPARED, KEYS, NUMBERS
from tests.fuzz.ranks import total_order
from tests.fuzz.relation import Making, Relation, named, of_kind
from tests.fuzz.rows import aggregate, where

_TIME = "TIMESTAMP"


def table_function(make: Making, source: Relation) -> tuple[str, list[str] | None]:
    """TABLE(TUMBLE(…)) or the like; of a SESSION its keys."""
    # a query as an argument stands in brackets, a table behind TABLE
    data = source.sql if source.sql.startswith("(") else f"TABLE {source.sql}"
    time = f"DESCRIPTOR({source.rowtime})"
    size, step = make.rng.choice(((4, 2), (10, 5), (6, 2), (20, 10), (3, 1), (5, 5)))
    moved = {"OFFSET": _seconds(make.rng.choice((1, 2, -1)))} if make.chance(0.25) else {}
    kind = make.rng.choice(("TUMBLE", "TUMBLE", "HOP", "CUMULATE", "SESSION"))
    keys = None
    match kind:
        case "TUMBLE":
            spans = {"SIZE": _seconds(size), **moved}
        case "HOP":
            spans = {"SLIDE": _seconds(step), "SIZE": _seconds(size), **moved}
        case "CUMULATE":
            spans = {"STEP": _seconds(step), "SIZE": _seconds(size), **moved}
        case _:
            keys = [
                k.name for k in make.keys(of_kind(source.columns, "STRING", "INT", "DATE"), 0, 1)
            ]
            data += f" PARTITION BY {keys[0]}" if keys else ""
            spans = {"GAP": _seconds(step)}
    arguments = {"DATA": data, "TIMECOL": time, **spans}
    # OFFSET is a keyword, which Flink does not take for a name.
    by_name = make.chance(0.1) and not moved
    texts = (
        [f"{name} => {x}" for name, x in arguments.items()] if by_name else list(arguments.values())
    )
    return f"TABLE({kind}({', '.join(texts)}))", keys


def _seconds(number: int) -> str:
    return f"INTERVAL '{number}' SECOND"


def window_rows(make: Making, depth: int) -> Relation:
    """Rows with their windows."""
    mark = make.mark()
    source = make.timed(depth)
    if source.window:
        source = make.instead(mark, timed=True)
    function, session = table_function(make, source)
    own = (Column("window_start", _TIME), Column("window_end", _TIME), Column("window_time", _TIME))
    columns = [c for c in source.columns if not c.name.startswith("window_")]
    names = ", ".join(c.name for c in (*columns, *own))
    sql = f"(SELECT {names} FROM {function}{where(make, tuple(columns), 0.15)})"
    # in Flink's ranks sessions of several keys that end together are one
    window = None if session else ("window_start", "window_end")
    return Relation(
        sql, (*columns, *own), "window rows", "window_time", False, False, False, window
    )


def window_group(make: Making, depth: int) -> Relation:
    """Aggregates of windows, by a table function."""
    mark = make.mark()
    source = make.timed(depth)
    if any(c.name.startswith("window_") for c in source.columns):
        source = make.instead(mark, timed=True)
    function, session = table_function(make, source)
    keys = [
        c.name for c in make.keys(of_kind(source.columns, *KEYS), 0, 2) if c.name != source.rowtime
    ]
    if session is not None:
        keys = session  # grouped by other keys it would be an ordinary aggregate
    columns = [c for c in source.columns if c.name in keys]
    start, end, time = (Column(make.name(x), _TIME) for x in ("ws", "we", "wt"))
    items = [
        *(c.name for c in columns),
        f"window_start AS {start.name}",
        f"window_end AS {end.name}",
    ]
    by = ["window_start", "window_end"]
    columns = [*columns, start, end]
    if make.level > 1 or make.chance(0.4):
        items.append(f"window_time AS {time.name}")
        by.append("window_time")
        columns.append(time)
    # Below them Flink takes sessions of keys for those of all rows, and above them NOT EXISTS does
    # not find all.
    if keys and not session and make.level == 1 and make.chance(0.3):
        sets = make.rng.choice(
            (f"ROLLUP ({', '.join(keys)})", f"GROUPING SETS (({', '.join(keys)}), ())")
        )
        return _window(make, source, function, items, columns, [*by, sets], None, "window")
    held = time.name if time in columns else None
    made = _window(make, source, function, items, columns, [*keys, *by], held, "window")
    return replace(made, window=None) if session else made


def _window(
    make: Making,
    source: Relation,
    behind: str,
    items: list[str],
    columns: list[Column],
    by: list[str],
    time: str | None,
    operator: str,
) -> Relation:
    # Flink cannot merge FIRST_VALUE and LAST_VALUE of slices and sessions
    merges = "TUMBLE(" not in (behind if operator == "window" else by[-1])
    for _ in range(make.rng.randint(1, 3)):
        text, column = aggregate(make, replace(source, ordered=False) if merges else source)
        items.append(named(text, column))
        columns.append(column)
    having = " HAVING COUNT(*) > 1" if make.chance(0.15) else ""
    names = {c.name: c for c in columns}
    started = [
        i.split(" AS ")[1] for i in items if i.startswith(("window_start AS ", "window_end AS "))
    ]
    window = (started[0], started[1]) if started else None
    sql = (
        f"(SELECT {', '.join(items)} FROM {behind}{where(make, source.columns, 0.1)} GROUP BY"
        f" {', '.join(by)}{having})"
    )
    return Relation(sql, tuple(names.values()), operator, time, False, False, False, window)


def legacy_window(make: Making, depth: int) -> Relation:
    """GROUP BY TUMBLE(…), HOP(…) or SESSION(…)."""
    source = make.timed(depth)
    word = make.rng.choice(("TUMBLE", "HOP", "SESSION"))
    size, step = make.rng.choice(((4, 2), (10, 5), (6, 2)))
    spans = f"INTERVAL '{step}' SECOND" + (f", INTERVAL '{size}' SECOND" if word == "HOP" else "")
    inside = f"({source.rowtime}, {spans})"
    keys = [c for c in make.keys(of_kind(source.columns, *KEYS), 0, 2) if c.name != source.rowtime]
    start, time = Column(make.name("ws"), _TIME), Column(make.name("wt"), _TIME)
    items = [*(k.name for k in keys), f"{word}_START{inside} AS {start.name}"]
    columns = [*keys, start]
    held = make.chance(0.6)
    if held:
        items.append(f"{word}_ROWTIME{inside} AS {time.name}")
        columns.append(time)
    by = [*(k.name for k in keys), f"{word}{inside}"]
    return _window(
        make, source, source.sql, items, columns, by, time.name if held else None, "legacy window"
    )


def window_top_n(make: Making, depth: int) -> Relation:
    """The first rows of each window."""
    if make.goals and make.goals[0] in ("window", "window-rows"):
        source = make.input(depth)
    else:
        source = make.build(make, depth - 1, make.rng.choice(("window", "window-rows")))
    if not source.window:
        return source
    rank = Column(make.name("n"), "BIGINT")
    keys = make.keys(of_kind(source.columns, "STRING", "INT", "BOOLEAN"), 0, 1)
    by = total_order(make, source, make.some(of_kind(source.columns, *COMPARED), 1, 1))
    if not by:
        return source
    partition = ", ".join([*source.window, *(k.name for k in keys)])
    window = f"PARTITION BY {partition} ORDER BY {', '.join(by)}"
    inner = f"(SELECT *, ROW_NUMBER() OVER ({window}) AS {rank.name} FROM {source.sql})"
    # where they are joined, Flink takes the first row of a key in each window, and that of a rank,
    # for the only one
    last = make.level == 1
    columns = (*source.columns, rank) if last else source.columns
    names = ", ".join(c.name for c in columns)
    sql = (
        f"(SELECT {names} FROM {inner} WHERE {rank.name} <="
        f" {make.rng.randint(1 if last else 2, 3)})"
    )
    return Relation(
        sql, columns, "window top-n", source.rowtime, False, False, False, source.window
    )


def over(make: Making, depth: int) -> Relation:
    source = make.timed(depth)
    keys = make.keys([c for c in of_kind(source.columns, *KEYS) if c.name != source.rowtime], 0, 2)
    partition = f"PARTITION BY {', '.join(k.name for k in keys)} " if keys else ""
    by = f"{partition}ORDER BY {source.rowtime}"
    frame = make.rng.choice(_RANGES if not source.ordered or make.chance(0.5) else ROWS)
    named_window = make.name("w") if make.chance(0.2) else ""
    columns = make.some(source.columns, 1, 3)
    items = [c.name for c in columns]
    calls = over_calls(make, source, frame in ROWS)
    for _ in range(make.rng.randint(1, 3)):
        text, kind = make.rng.choice(calls)
        column = Column(make.name("o"), kind)
        plain = text.startswith(("LAG", "LEAD", "ROW_NUMBER", "RANK", "DENSE_RANK"))
        window = f"{by}{'' if plain else ' ' + frame}"
        items.append(f"{text} OVER {named_window or f'({window})'} AS {column.name}")
        columns.append(column)
    written = f" WINDOW {named_window} AS ({window})" if named_window else ""
    if source.rowtime not in items:
        items.append(str(source.rowtime))
        columns.append(Column(str(source.rowtime), _TIME))
    sql = (
        f"(SELECT {', '.join(items)} FROM {source.sql}{where(make, source.columns, 0.15)}{written})"
    )
    return Relation(sql, tuple(columns), "over", source.rowtime, False, False, False)


ROWS = (
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 5 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
)
_RANGES = (
    "RANGE BETWEEN INTERVAL '5' SECOND PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN INTERVAL '2' SECOND PRECEDING AND CURRENT ROW",
    "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "",
)


def over_calls(make: Making, source: Relation, rows: bool) -> list[tuple[str, str]]:
    """Calls that Flink lets stand together: those with a frame, those that look back, or
    numbers."""
    numbers, compared = of_kind(source.columns, *NUMBERS), of_kind(source.columns, *COMPARED)
    forms = [("COUNT(*)", "BIGINT")]
    if numbers:
        chosen = make.rng.choice(numbers)
        forms += [(f"{word}({chosen.name})", chosen.kind) for word in ("SUM", "AVG", "MIN", "MAX")]
        forms.append((f"COUNT(DISTINCT {chosen.name})", "BIGINT"))
    if not compared or not source.ordered:
        return forms
    chosen = make.rng.choice(compared)
    if make.chance(0.3):
        return [(f"LAG({chosen.name})", chosen.kind), (f"LAG({chosen.name}, 3)", chosen.kind)]
    if make.chance(0.15):
        return [("ROW_NUMBER()", "BIGINT")]
    return (
        forms
        + [(f"{word}({chosen.name})", chosen.kind) for word in ("FIRST_VALUE", "LAST_VALUE")] * rows
    )


def deduplicate(make: Making, depth: int) -> Relation:
    """The first or last row of each key by event time."""
    mark = make.mark()
    source = make.timed(depth)
    if not source.ordered:
        source = make.instead(mark, timed=True)
    keys = make.keys([c for c in of_kind(source.columns, *KEYS) if c.name != source.rowtime], 1, 2)
    if not keys:
        return source
    rank = make.name("n")
    partition = ", ".join(k.name for k in keys)
    direction = make.rng.choice((" ASC", " DESC", ""))
    window = f"PARTITION BY {partition} ORDER BY {source.rowtime}{direction}"
    inner = (
        f"(SELECT *, ROW_NUMBER() OVER ({window}) AS {rank} FROM"
        f" {source.sql}{where(make, source.columns, 0.1)})"
    )
    names = ", ".join(c.name for c in source.columns)
    last = direction == " DESC"
    sql = f"(SELECT {names} FROM {inner} WHERE {rank} = 1)"
    return Relation(
        sql,
        source.columns,
        "dedup last" if last else "dedup first",
        None if last else source.rowtime,
        False,
        False,
        last,
    )
