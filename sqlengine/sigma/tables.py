"""Tables that rules read, and what stands for a field in them: a column, a part of a row, an entry
of a map or of a JSON text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from parser.types import STRING, DataType, Root, Schema
from parser.writer.names import backticked, quoted
from planner.catalog import Catalog, Table, View
from sqlengine.jobs.planning import JobText, plan_job


@dataclass(frozen=True)
class Column:
    """An expression of a table's row, as SQL, with its type."""

    sql: str
    type: DataType

    @property
    def is_text(self) -> bool:
        return self.type.root in (Root.VARCHAR, Root.CHAR)

    @property
    def text(self) -> str:
        """The expression as text."""
        return self.sql if self.is_text else f"CAST({self.sql} AS STRING)"


@dataclass(frozen=True)
class EventTable:
    """A table or a view by its name; `time`: its column of event time, if it has one."""

    name: str
    schema: Schema
    time: str | None = None

    def column(self, path: str, extra: str | None = None) -> Column | None:
        """Returns what a path of names with dots stands for, from `extra` (the path of a row, a map
        or a JSON text) where no column has it; None where nothing has."""
        found = self._at(path)
        if found is not None or extra is None or (rest := self._at(extra)) is None:
            return found
        return _inside(rest.sql, rest.type, path)

    def _at(self, path: str) -> Column | None:
        """Tries the longest name first: columns and fields may have dots in their names."""
        for name, rest in _splits(path):
            if name in self.schema:
                return _inside(backticked(name), self.schema.type(name), rest)
        return None

    def texts(self) -> list[Column]:
        """Returns the columns that hold text, those in rows, too: where keywords are looked for."""
        return [c for f in self.schema for c in _texts(backticked(f.name), f.type)]

    def integers(self) -> list[Column]:
        """Returns the columns of whole numbers: where keywords of digits are looked for, too."""
        return [Column(backticked(f.name), f.type) for f in self.schema if f.type.is_integer]


def _splits(path: str) -> Iterator[tuple[str, str]]:
    """Yields a path as a name and the rest of it, the longest name first."""
    at = len(path)
    while at > 0:
        yield path[:at], path[at + 1 :]
        at = path.rfind(".", 0, at)


def _inside(sql: str, kind: DataType, path: str) -> Column | None:
    """Returns what a path stands for in a value."""
    if not path:
        return Column(sql, kind)
    if kind.root is not Root.ROW:
        return _entry(sql, kind, path)
    fields = dict(zip(kind.names, kind.children, strict=True))
    for name, rest in _splits(path):
        if name in fields:
            return _inside(f"{sql}.{backticked(name)}", fields[name], rest)
    return None


def _entry(sql: str, kind: DataType, path: str) -> Column | None:
    """Returns the entry of a map, or the text at a path of a JSON text."""
    if kind.root is Root.MAP and kind.children[0].root is Root.VARCHAR:
        return Column(f"{sql}[{quoted(path)}]", kind.children[1])
    if kind.root is Root.VARCHAR:
        steps = "".join(f'["{_in_path(p)}"]' for p in path.split("."))
        return Column(f"JSON_VALUE({sql}, {quoted('$' + steps)})", STRING)
    return None


def _in_path(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"')


def _texts(sql: str, kind: DataType) -> Iterator[Column]:
    if kind.root in (Root.VARCHAR, Root.CHAR):
        yield Column(sql, kind)
    elif kind.root is Root.ROW:
        for name, child in zip(kind.names, kind.children, strict=True):
            yield from _texts(f"{sql}.{backticked(name)}", child)
    elif kind.root in (Root.MAP, Root.ARRAY) and kind.children[-1].root is Root.VARCHAR:
        yield Column(f"CAST({sql} AS STRING)", STRING)


def defined_tables(text: str, file: str | None = None) -> Mapping[str, EventTable]:
    """Returns the tables and views that a script defines, by name. SqlError where it is wrong."""
    planned = plan_job(JobText("_tables", text, file), Catalog(), {})
    found: dict[str, EventTable] = {}
    for each in planned.objects:
        if isinstance(each, Table | View):
            schema = each.schema if isinstance(each, Table) else each.plan.schema
            found[each.name[2]] = EventTable(each.name[2], schema, _time_of(each, schema))
    return found


def _time_of(defined: Table | View, schema: Schema) -> str | None:
    if isinstance(defined, Table):
        return defined.watermark.column if defined.watermark else None
    return next((c.name for c in schema if c.type.is_rowtime), None)
