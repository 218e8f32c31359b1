"""Operations of one input: projections, groups, arrays; and sets."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.data import Column
from tests.fuzz.forms import COMPARED, COMPUTED, KEYS, NUMBERS, WHOLE
from tests.fuzz.relation import Making, Relation, named, of_kind


def where(make: Making, columns: tuple[Column, ...], share: float = 0.2) -> str:
    return f" WHERE {make.expressions.condition(columns)}" if make.chance(share) else ""


def project(make: Making, depth: int) -> Relation:
    source = make.input(depth)
    return projected(make, source)


def projected(make: Making, source: Relation) -> Relation:
    """Columns and expressions of the source; its time attribute often stays."""
    items, columns = [], []
    for column in make.some(source.columns, 1, 4):
        items.append(column.name)
        columns.append(column)
    for _ in range(make.rng.randint(0, 3)):
        column = Column(make.name(), make.rng.choice(COMPUTED))
        made = make.expressions
        text = (
            made.condition(source.columns)
            if column.kind == "BOOLEAN"
            else made.of(source.columns, column.kind, 3)
        )
        items.append(named(text, column))
        columns.append(column)
    names = {c.name for c in columns}
    if source.rowtime and source.rowtime not in names and make.chance(0.7):
        items.append(source.rowtime)
        columns.append(Column(source.rowtime, "TIMESTAMP"))
        names.add(source.rowtime)
    if source.window and make.chance(0.8):
        for name in source.window:
            if name not in names:
                items.append(name)
                columns.append(Column(name, "TIMESTAMP"))
                names.add(name)
    window = source.window if source.window and set(source.window) <= names else None
    return Relation(
        f"(SELECT {', '.join(items)} FROM {source.sql}{where(make, source.columns)})",
        tuple(columns),
        "project",
        source.rowtime if source.rowtime in names else None,
        source.ordered,
        source.exact,
        source.updating,
        window,
        source.changes,
    )


def aggregate(make: Making, source: Relation) -> tuple[str, Column]:
    """A call of an aggregate function with its name."""
    columns = source.columns
    numbers, compared = of_kind(columns, *NUMBERS), of_kind(columns, *COMPARED)
    forms: list[Callable[[], tuple[str, str]]] = [lambda: ("COUNT(*)", "BIGINT")]
    if compared:
        forms += [
            lambda: (f"COUNT({make.rng.choice(compared).name})", "BIGINT"),
            lambda: (f"COUNT(DISTINCT {make.rng.choice(compared).name})", "BIGINT"),
            lambda: _same(make, f"{make.rng.choice(('MIN', 'MAX'))}({{}})", compared),
        ]
    if numbers:
        forms += [
            lambda: _same(make, "SUM({})", numbers),
            lambda: _same(make, "AVG({})", numbers),
            lambda: _same(make, "SUM(DISTINCT {})", of_kind(columns, *WHOLE, "DECIMAL") or numbers),
            lambda: (f"SUM({make.expressions.of(columns, 'INT')})", "INT"),
            lambda: (f"MAX({make.expressions.of(columns, 'STRING')})", "STRING"),
            lambda: (
                f"SUM(CASE WHEN {make.expressions.condition(columns)} THEN 1 ELSE 0 END)",
                "INT",
            ),
        ]
        spread = make.rng.choice(("STDDEV_POP", "STDDEV_SAMP", "VAR_POP", "VAR_SAMP"))
        # of a single value of a column that is never NULL, Flink's is -1
        forms.append(
            lambda: _same(
                make, spread + "(NULLIF({}, 77))", of_kind(columns, "INT", "DOUBLE") or numbers
            )
        )
    if booleans := of_kind(columns, "BOOLEAN"):
        forms.append(lambda: _same(make, f"{make.rng.choice(('MIN', 'MAX'))}({{}})", booleans))
    texts = of_kind(columns, "STRING")
    if texts and make.level == 1:
        forms.append(lambda: (f"COLLECT({make.rng.choice(texts).name})", "OTHER"))
    if source.ordered and compared:
        forms.append(
            lambda: _same(make, f"{make.rng.choice(('FIRST_VALUE', 'LAST_VALUE'))}({{}})", compared)
        )
        forms.append(lambda: (f"ARRAY_AGG({make.rng.choice(compared).name})", "OTHER"))
    if source.ordered and texts:
        calls = (
            "LISTAGG({})",
            "LISTAGG({}, '')",
            "LISTAGG(DISTINCT {})",
            "JSON_ARRAYAGG({} NULL ON NULL)",
        )
        forms.append(lambda: _same(make, make.rng.choice(calls), texts))
    text, kind = make.rng.choice(forms)()
    if make.chance(0.15):
        text += f" FILTER (WHERE {make.expressions.condition(columns, 1)})"
    return text, Column(make.name("a"), kind)


def _same(make: Making, form: str, columns: list[Column]) -> tuple[str, str]:
    chosen = make.rng.choice(columns)
    return form.format(chosen.name), chosen.kind


def group(make: Making, depth: int) -> Relation:
    source = make.input(depth)
    keys = make.keys(of_kind(source.columns, *KEYS), 0, 2)
    items, columns = [k.name for k in keys], list(keys)
    written = [k.name for k in keys]
    if make.chance(0.15):
        key = Column(make.name("g"), make.rng.choice(("INT", "STRING")))
        text = make.expressions.of(source.columns, key.kind)
        written.append(text)
        items.append(named(text, key))
        columns.append(key)
    return grouped(make, source, items, columns, written)


def grouped(
    make: Making, source: Relation, items: list[str], columns: list[Column], keys: list[str]
) -> Relation:
    """GROUP BY the keys; `items` and `columns` name them."""
    items, columns = list(items), list(columns)
    having = ""
    for _ in range(make.rng.randint(1, 3)):
        text, column = aggregate(make, source)
        items.append(named(text, column))
        columns.append(column)
        if not having and make.chance(0.2):
            having = f" HAVING {text} {make.rng.choice(('IS NOT NULL', 'IS NULL'))}"
    if make.chance(0.2):
        having = f" HAVING COUNT(*) {make.rng.choice(('> 1', '>= 2', '< 3', '= 1'))}"
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    return Relation(
        f"(SELECT {', '.join(items)} FROM"
        f" {source.sql}{where(make, source.columns, 0.15)}{by}{having})",
        tuple(columns),
        "group" if keys else "group all",
        ordered=False,
        exact=source.exact,
        updating=True,
        changes=True,
    )


def grouping_sets(make: Making, depth: int) -> Relation:
    source = make.input(depth)
    keys = make.keys(of_kind(source.columns, *KEYS), 2, 3)
    if len(keys) < 2:
        return group(make, depth)
    names = [k.name for k in keys]
    form = make.rng.choice(
        (f"ROLLUP ({', '.join(names)})", f"CUBE ({', '.join(names)})", _sets(make, names))
    )
    # Flink takes all keys for one key of the result, though NULL may be a value in one set and no
    # column in another
    shown = keys if make.level == 1 else keys[:-1]
    items, columns = [k.name for k in shown], list(shown)
    if make.chance(0.4):
        column = Column(make.name("g"), "BIGINT")
        items.append(f"GROUPING({names[0]}) AS {column.name}")
        columns.append(column)
    made = grouped(make, source, items, columns, [form])
    return Relation(made.sql, made.columns, "grouping sets", None, False, False, True, changes=True)


def _sets(make: Making, names: list[str]) -> str:
    """Each set once: GROUPING gives wrong numbers in Flink where one is there twice."""
    sets = dict.fromkeys(
        (tuple(names), (make.rng.choice(names),), () if make.chance(0.5) else (names[-1],))
    )
    return "GROUPING SETS (" + ", ".join(f"({', '.join(s)})" for s in sets) + ")"


def distinct(make: Making, depth: int) -> Relation:
    source = make.input(depth)
    columns = make.keys(of_kind(source.columns, *KEYS), 1, 3) or list(source.columns)
    sql = (
        f"(SELECT DISTINCT {', '.join(c.name for c in columns)} FROM"
        f" {source.sql}{where(make, source.columns)})"
    )
    return Relation(sql, tuple(columns), "distinct", None, False, source.exact, True)


def union_all(make: Making, depth: int) -> Relation:
    return _set(make, depth, "UNION ALL")


def set_operation(make: Making, depth: int) -> Relation:
    words = ["UNION", "INTERSECT", "EXCEPT"]
    if make.level == 1:  # columns that nobody reads Flink leaves out before it compares rows
        words += ["INTERSECT ALL", "EXCEPT ALL"]
    return _set(make, depth, make.rng.choice(words))


def _set(make: Making, depth: int, word: str) -> Relation:
    left = make.inputs(depth)[0]
    # Flink wants that all or none of the columns in one place are time attributes
    fitting = [c for c in left.columns if c.kind not in ("TIMESTAMP", "OTHER")]
    kinds = [c.kind for c in make.some(fitting, 1, 3)] or ["INT"]
    sources, sides = [left], [[_column_of(make, left, kind) for kind in kinds]]
    for _ in range(2 if make.chance(0.2) else 1):
        right = make.inputs(depth)[0] if make.goals or make.chance(0.5) else left
        sources.append(right)
        sides.append([_column_of(make, right, kind) for kind in kinds])
    columns = tuple(Column(make.name("u"), kind) for kind in kinds)
    queries = []
    for source, side in zip(sources, sides, strict=True):
        items = [named(text, column) for text, column in zip(side, columns, strict=True)]
        queries.append(f"SELECT {', '.join(items)} FROM {source.sql}{where(make, source.columns)}")
    updating = word != "UNION ALL" or any(s.updating for s in sources)
    return Relation(
        f"({f' {word} '.join(queries)})", columns, word.lower(), None, False, False, updating
    )


def _column_of(make: Making, source: Relation, kind: str) -> str:
    found = make.keys(of_kind(source.columns, kind), 1, 1)
    return found[0].name if found else make.expressions.of(source.columns, kind, 1)


def values(make: Making, depth: int) -> Relation:
    columns = tuple(
        Column(make.name("w"), k)
        for k in make.rng.sample(("INT", "STRING", "DECIMAL", "BOOLEAN"), 2)
    )
    count = make.rng.randint(1, 4)
    rows = [
        "(" + ", ".join(make.expressions.of((), c.kind, 0) for c in columns) + ")"
        for _ in range(count)
    ]
    names = ", ".join(c.name for c in columns)
    return Relation(
        f"(SELECT * FROM (VALUES {', '.join(rows)}) AS {make.name('t')} ({names}))",
        columns,
        "values",
    )


# what UNNEST makes of a column
_ELEMENTS = {"ARRAY": ("INT",), "ROWS": ("INT", "STRING"), "MAP": ("STRING", "INT")}


def unnest(make: Making, depth: int) -> Relation:
    source = make.input(depth)
    arrays = of_kind(source.columns, *_ELEMENTS)
    numbers = of_kind(source.columns, "INT")
    if not arrays and not numbers:
        return project(make, depth)
    chosen = make.rng.choice(arrays) if arrays else Column(_array(make, numbers), "ARRAY")
    alias = make.name("t")
    added = [Column(make.name("e"), kind) for kind in _ELEMENTS[chosen.kind]]
    ordinality = ""
    if make.chance(0.3):
        added.append(Column(make.name("o"), "INT"))
        ordinality = " WITH ORDINALITY"
    join, on = ("LEFT JOIN", " ON TRUE") if make.chance(0.4) else ("CROSS JOIN", "")
    columns = [*make.some(source.columns, 1, 3), *added]
    if source.rowtime and source.rowtime not in {c.name for c in columns}:
        columns.append(Column(source.rowtime, "TIMESTAMP"))
    names = ", ".join(c.name for c in added)
    items = f"UNNEST({chosen.name}){ordinality} AS {alias} ({names}){on}"
    sql = f"(SELECT {', '.join(c.name for c in columns)} FROM {source.sql} {join} {items})"
    return Relation(
        sql,
        tuple(columns),
        "unnest",
        source.rowtime,
        source.ordered,
        source.exact,
        source.updating,
        None,
        source.changes,
    )


def _array(make: Making, numbers: list[Column]) -> str:
    """An array of numbers of the row. Its first element may be NULL: otherwise Flink takes no
    element for one."""
    first = make.rng.choice(numbers).name
    return f"ARRAY[{first}, {make.rng.choice(numbers).name} + 1]"


def changes(make: Making, depth: int) -> Relation:
    """A table that tells changes."""
    table = make.only("changes")
    return Relation(table.name, table.columns, "changes", None, False, True, True, changes=True)
