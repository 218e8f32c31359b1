"""The columns of an alert: what a rule says of itself, and what its event had.

In a form, `{id}`, `{title}`, `{level}`, `{tags}`, `{name}`, `{description}` and `{author}` are the
rule's; `{time}` is the event's time, `{event}` all of it as JSON; `{group}` and `{metric}` are what
a correlation found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from parser.types import DataType, Root
from parser.writer.names import backticked, quoted
from sqlengine.sigma.mappings import AlertForm
from sqlengine.sigma.reading import Unconvertible
from sqlengine.sigma.rules import About
from sqlengine.sigma.tables import Column, EventTable

_PART: Final = re.compile(r"\{(\w+)\}")
_OF_CORRELATIONS: Final = ("group", "metric")
# What columns of known names hold where the mapping says nothing.
_KNOWN: Final = {
    "rule_id": "{id}",
    **dict.fromkeys(("rule_title", "rule", "title", "rule_name"), "{title}"),
    **dict.fromkeys(("level", "severity", "rule_level"), "{level}"),
    **dict.fromkeys(("tags", "rule_tags"), "{tags}"),
    **dict.fromkeys(("ts", "time", "event_time", "rowtime"), "{time}"),
    "event": "{event}",
    **dict.fromkeys(("group", "group_key"), "{group}"),
    **dict.fromkeys(("metric", "metric_value"), "{metric}"),
}
# Kinds that JSON_OBJECT takes as they are.
_IN_JSON: Final = frozenset(
    (
        Root.VARCHAR, Root.CHAR, Root.BOOLEAN, Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT,
        Root.FLOAT, Root.DOUBLE, Root.DECIMAL,
    )
)  # fmt: skip


@dataclass(frozen=True)
class AlertColumn:
    """A column of an alert: its name, its form, and whether it is an array."""

    name: str
    form: str
    kind: str
    is_array: bool = False

    @property
    def of_correlation(self) -> bool:
        return any(p in _OF_CORRELATIONS for p in _PART.findall(self.form))

    @property
    def of_event(self) -> bool:
        """True if it is computed from the event, and not known from the rule alone."""
        rest = _PART.sub("", self.form).strip()
        return bool(rest) or any(p in ("time", "event") for p in _PART.findall(self.form))


@dataclass(frozen=True)
class Alerts:
    """The table of alerts, and what goes into it."""

    table: str
    columns: tuple[AlertColumn, ...]

    def statement(self, values: Mapping[str, str], source: str) -> str:
        """Returns INSERT with the values of the columns, from what stands behind FROM."""
        names = ", ".join(backticked(c.name) for c in self.columns)
        selected = ",\n  ".join(f"{values[c.name]} AS {backticked(c.name)}" for c in self.columns)
        into = f"{backticked(self.table)} ({names})"
        return f"INSERT INTO {into}\nSELECT\n  {selected}\nFROM {source};\n"


def alerts_of(form: AlertForm, tables: Mapping[str, EventTable]) -> Alerts:
    """Returns the columns of alerts. Unconvertible where their table is not there, or lacks one."""
    table = tables.get(form.table)
    if table is None:
        raise Unconvertible(
            f"the table of alerts '{form.table}' is not defined",
            hint="define it in _tables.sql, or name another under 'alerts' of the mapping",
        )
    forms = dict(form.columns) if form.columns is not None else _default(table)
    unknown = [name for name in forms if name not in table.schema]
    if unknown or not forms:
        told = ", ".join(unknown) or ", ".join(_KNOWN)
        raise Unconvertible(f"the table of alerts '{form.table}' has no column {told}")
    kinds = {name: table.schema.type(name) for name in forms}
    return Alerts(
        form.table,
        tuple(
            AlertColumn(n, f, str(kinds[n].with_nullable(True).plain), kinds[n].root is Root.ARRAY)
            for n, f in forms.items()
        ),
    )


def _default(table: EventTable) -> dict[str, str]:
    """Returns forms for the columns of known names, and for all others the event's column of that
    name."""
    return {
        c.name: _KNOWN[c.name]
        if c.name in _KNOWN and _holds(_KNOWN[c.name], c.type)
        else "{=" + c.name + "}"
        for c in table.schema
    }


def _holds(form: str, kind: DataType) -> bool:
    """True if a column of that type can have what the form gives."""
    if form == "{time}":
        return kind.is_timestamp
    if form == "{tags}" and kind.root is Root.ARRAY:
        return True
    return kind.root is Root.VARCHAR or (form == "{metric}" and kind.root in _IN_JSON)


def rule_value(column: AlertColumn, about: About) -> str:
    """Returns the value of a column that the rule knows alone."""
    return _PART.sub(lambda m: _said(m[1], about, column), column.form)


def event_value(column: AlertColumn, about: About, table: EventTable) -> str:
    """Returns the value of a column that is computed from an event."""
    if column.form.startswith("{="):
        name = column.form[2:-1]
        return _as(column, table.column(name))

    def part(found: re.Match[str]) -> str:
        if found[1] == "time":
            return _as(column, table.column(table.time) if table.time else None)
        return _event(table) if found[1] == "event" else _said(found[1], about, column)

    return _PART.sub(part, column.form)


def _as(column: AlertColumn, found: Column | None) -> str:
    """Returns a value of the event as the column has it; NULL where there is none."""
    if found is None:
        return f"CAST(NULL AS {column.kind})"
    same = str(found.type.with_nullable(True).plain) == column.kind
    return found.sql if same else f"CAST({found.sql} AS {column.kind})"


def _event(table: EventTable) -> str:
    """Returns an event as JSON."""
    members = []
    for each in table.schema:
        sql = backticked(each.name)
        if each.type.root in (Root.ROW, Root.MAP, Root.ARRAY):
            sql = f"JSON_STRING({sql})"
        elif each.type.root not in _IN_JSON:
            sql = f"CAST({sql} AS STRING)"
        members.append(f"KEY {quoted(each.name)} VALUE {sql}")
    return f"JSON_OBJECT({', '.join(members)} ABSENT ON NULL)"


def _said(part: str, about: About, column: AlertColumn) -> str:
    """Returns what a rule says of itself, as a literal."""
    known = {
        "id": about.key,
        "title": about.title,
        "level": about.level,
        "name": about.name,
        "description": about.description,
        "author": about.author,
    }
    if part == "tags":
        if column.is_array:
            found = ", ".join(map(quoted, about.tags))
            return f"ARRAY[{found}]" if found else "CAST(NULL AS ARRAY<STRING>)"
        return quoted(", ".join(about.tags))
    if part in _OF_CORRELATIONS:  # of a single event
        return f"CAST(NULL AS {column.kind})"
    if part not in known:
        raise Unconvertible(f"column '{column.name}' of alerts has '{{{part}}}', which is unknown")
    return quoted(known[part])
