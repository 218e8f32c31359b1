"""Operations that take the first rows of an order: Top-N, QUALIFY, LIMIT."""

from __future__ import annotations

from tests.fuzz.data import Column
from tests.fuzz.forms import COMPARED, KEYS
from tests.fuzz.relation import Making, Relation, of_kind
from tests.fuzz.rows import project, where


def total_order(make: Making, source: Relation, first: list[Column]) -> list[str] | None:
    """ORDER BY that leaves no two different rows equal; None where a column cannot be ordered
    by."""
    if any(c.kind in ("ARRAY", "ROW", "ROWS", "MAP", "BYTES", "OTHER") for c in source.columns):
        return None
    rest = [c for c in source.columns if c not in first]
    return [_order_item(make, source, c) for c in (*first, *rest)]


def _order_item(make: Making, source: Relation, column: Column) -> str:
    """Numbers that are updated, or come in no order, as texts: of -0.0 and 0.0, which are equal,
    either may be the first, and Flink does not find again what it has put in the place of the
    other."""
    texts = column.kind in ("FLOAT", "DOUBLE") and (source.updating or not source.ordered)
    item = f"CAST({column.name} AS STRING)" if texts else column.name
    return item + make.rng.choice(
        ("", " ASC", " DESC", " DESC NULLS LAST", " ASC NULLS LAST", " NULLS FIRST")
    )


def _order(make: Making, source: Relation) -> list[str] | None:
    order = make.some(of_kind(source.columns, *COMPARED), 1, 2)
    if source.ordered and make.chance(0.5):
        return [_order_item(make, source, c) for c in order]
    return total_order(make, source, order)


def _condition(make: Making, source: Relation) -> tuple[str, bool]:
    """Of a rank; whether it wants the first one only. Flink takes a single first row of what only
    comes for one that never changes: we ask for it where that can be told, as the last of all
    operations, or where rows are taken back."""
    if (make.level == 1 or source.changes) and make.chance(0.4):
        return make.rng.choice(("= 1", "<= 1", "< 2")), True
    limit = make.rng.randint(2, 4)
    forms = [f"<= {limit}", f"< {limit + 1}"]
    # Flink does not find again what it has told of behind an offset, when that is taken back.
    if not source.updating:
        forms += [f"= {limit + 1}", f"BETWEEN 2 AND {limit + 1}"]
    return make.rng.choice(forms), False


def top_n(make: Making, depth: int) -> Relation:
    source = make.input(depth)
    keys = make.keys(of_kind(source.columns, *KEYS), 0, 1)
    by = _order(make, source)
    if not by:
        return project(make, depth)
    rank = Column(make.name("n"), "BIGINT")
    partition = f"PARTITION BY {', '.join(k.name for k in keys)} " if keys else ""
    inner = (
        f"(SELECT *, ROW_NUMBER() OVER ({partition}ORDER BY {', '.join(by)}) AS {rank.name} FROM"
        f" {source.sql})"
    )
    columns = list(source.columns) + ([rank] if make.chance(0.5) else [])
    condition, first = _condition(make, source)
    sql = (
        f"(SELECT {', '.join(c.name for c in columns)} FROM {inner} WHERE {rank.name} {condition})"
    )
    places = tuple(source.columns.index(k) for k in keys) if first else None
    name = "top-1" if first else "top-n"
    return Relation(
        sql, tuple(columns), name, None, False, False, True, changes=not first, first_of=places
    )


def qualify(make: Making, depth: int) -> Relation:
    """A condition on a rank that stands in the same SELECT."""
    source = make.input(depth)
    keys = make.keys(of_kind(source.columns, *KEYS), 0, 1)
    by = _order(make, source)
    if not by:
        return project(make, depth)
    partition = f"PARTITION BY {', '.join(k.name for k in keys)} " if keys else ""
    condition, first = _condition(make, source)
    names = ", ".join(c.name for c in source.columns)
    rank = f"ROW_NUMBER() OVER ({partition}ORDER BY {', '.join(by)})"
    sql = (
        f"(SELECT {names} FROM {source.sql}{where(make, source.columns, 0.3)} QUALIFY {rank}"
        f" {condition})"
    )
    places = tuple(source.columns.index(k) for k in keys) if first else None
    return Relation(
        sql, source.columns, "qualify", None, False, False, True, changes=not first, first_of=places
    )


def limit(make: Making, depth: int) -> Relation:
    source = make.input(depth)
    count = make.rng.randint(1, 6)
    offset = f" OFFSET {make.rng.randint(1, 3)}" if not source.updating and make.chance(0.2) else ""
    if source.ordered and make.chance(0.4):
        sql = f"(SELECT * FROM {source.sql}{where(make, source.columns)} LIMIT {count}{offset})"
        return Relation(sql, source.columns, "limit", None, not offset, not offset, False)
    by = total_order(make, source, make.some(of_kind(source.columns, *COMPARED), 1, 2))
    if not by:
        return project(make, depth)
    first = (
        f"LIMIT {count}{offset}" if offset or make.chance(0.8) else f"FETCH FIRST {count} ROWS ONLY"
    )
    sql = f"(SELECT * FROM {source.sql} ORDER BY {', '.join(by)} {first})"
    return Relation(sql, source.columns, "order limit", None, False, False, True)
