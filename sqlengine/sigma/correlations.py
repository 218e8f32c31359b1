"""Correlations as statements over sliding windows: the events of their rules as one relation (`at`,
`slot`: which rule, `g0`…: what they are grouped by, `v`: the value that is counted or added up,
`c0`…: what is carried along), the metric of the time before each event (OVER), or the events in
order (MATCH_RECOGNIZE). An alert comes with each event that fulfils the condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from typing import Final, TypeAlias

from parser.types import STRING, Root
from parser.writer.names import backticked
from sqlengine.sigma.alerts import AlertColumn, Alerts, event_value, rule_value
from sqlengine.sigma.conditions import where
from sqlengine.sigma.reading import Reading, Unconvertible
from sqlengine.sigma.rules import About, Combination, Correlation, Of, Rule, Some, fields_of
from sqlengine.sigma.sources import Sources
from sqlengine.sigma.tables import Column

_NUMBERS: Final = frozenset(
    (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT, Root.FLOAT, Root.DOUBLE, Root.DECIMAL)
)
_TEMPORAL: Final = frozenset(("temporal", "temporal_ordered"))
_TEXT_METRICS: Final = frozenset(("value_count",))
# Correlations of correlations: deeper ones come back to themselves.
MAX_DEPTH: Final = 10
# Queries of one statement: each reference to a correlation is another one.
_MOST_RELATIONS: Final = 1000


@dataclass(frozen=True)
class Carried:
    """Something of an event that goes along: `of` gives it as SQL over a table, `field` (instead)
    is one of Sigma's fields."""

    of: Callable[[Reading], str] | None = None
    field: str = ""


Member: TypeAlias = Rule | Correlation


def correlation_statement(correlation: Correlation, sources: Sources, alerts: Alerts) -> str:
    """Returns the statement of a correlation. Unconvertible with what is in the way."""
    about = correlation.about
    of_event = [c for c in alerts.columns if c.of_event and c.form != "{time}"]
    carried = [Carried(_value_of(c, about)) for c in of_event]
    relation = _Writer(sources).relation(correlation, carried, 0)
    groups = ", ".join(f"`g{i}`" for i in range(len(correlation.group_by)))
    known = {
        "group": f"CONCAT_WS(', ', {groups})" if groups else "''",
        "metric": "`metric`",
    }
    values = {c.name: f"`c{i}`" for i, c in enumerate(of_event)}
    for column in alerts.columns:
        if column.of_correlation:
            form = column.form.strip("{}")
            values[column.name] = f"CAST({known.get(form, 'NULL')} AS {column.kind})"
        elif column.form == "{time}":
            values[column.name] = "`at`"
        elif not column.of_event:
            values[column.name] = rule_value(column, about)
    return alerts.statement(values, f"(\n{relation})")


def _value_of(column: AlertColumn, about: About) -> Callable[[Reading], str]:
    return lambda reading: event_value(column, about, reading.table)


@dataclass(frozen=True)
class _Writer:
    sources: Sources
    numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def relation(self, correlation: Correlation, carried: Sequence[Carried], depth: int) -> str:
        """Returns a query of what a correlation found: `at`, `metric`, the groups, what is
        carried."""
        if depth > MAX_DEPTH:
            raise Unconvertible(f"correlation '{correlation.about.title}' comes back to itself")
        if next(self.numbers) > _MOST_RELATIONS:
            raise Unconvertible(f"it is made of more than {_MOST_RELATIONS:,} correlations")
        branches = [
            self._branch(correlation, members, slot, carried, depth)
            for slot, members in self._slots(correlation)
        ]
        events = "\nUNION ALL\n".join(branches)
        names = [f"`c{i}`" for i in range(len(carried))]
        if correlation.kind == "temporal_ordered":
            return _in_order(correlation, events, names)
        return _over(correlation, events, names)

    def _slots(self, correlation: Correlation) -> list[tuple[int, list[Member]]]:
        """Returns the rules by their places; for counts those of one table together, so that an
        event counts once."""
        members = [self._member(correlation, reference) for reference in correlation.rules]
        if correlation.kind in _TEMPORAL:
            return [(i, [m]) for i, m in enumerate(members)]

        def alike(member: Member) -> tuple[str, str]:
            if isinstance(member, Correlation):
                return "", member.about.key
            aliases = [(a, _aliased(correlation, member, a)) for a in correlation.aliases]
            return self.sources.reading(member.source).table.name, str(aliases)

        ordered = sorted(members, key=alike)
        return [(0, list(found)) for _, found in groupby(ordered, alike)]

    def _member(self, correlation: Correlation, reference: str) -> Member:
        found = self.sources.rules.named(reference)
        if found is None:
            raise Unconvertible(f"its rule '{reference}' is not there", hint="add it to the folder")
        return found

    def _branch(
        self,
        correlation: Correlation,
        members: list[Member],
        slot: int,
        carried: Sequence[Carried],
        depth: int,
    ) -> str:
        """Returns the query of the events of rules that read one table, or of a correlation."""
        first = members[0]
        try:
            if isinstance(first, Correlation):
                return self._of_correlation(correlation, first, slot, carried, depth)
            return self._of_rules(
                correlation, [m for m in members if isinstance(m, Rule)], slot, carried
            )
        except Unconvertible as error:
            raise Unconvertible(
                f"its rule '{first.about.title}' cannot be converted: {error.message}",
                detail=error.detail,
                hint=error.hint,
            ) from None

    def _of_rules(
        self, correlation: Correlation, rules: list[Rule], slot: int, carried: Sequence[Carried]
    ) -> str:
        reading = self.sources.reading(rules[0].source)
        if reading.table.time is None:
            raise Unconvertible(
                f"table '{reading.table.name}' has no event time",
                hint="declare WATERMARK FOR a column of it",
            )
        for rule in rules:
            reading.check(fields_of(rule.condition))

        def column(field: str) -> Column:
            return reading.column(_aliased(correlation, rules[0], field))

        own = [c.of(reading) if c.of else column(c.field).text for c in carried]
        condition = (
            Some(tuple(r.condition for r in rules)) if len(rules) > 1 else rules[0].condition
        )
        test = where(condition, reading)
        selected = _selected(correlation, backticked(reading.table.time), slot, column, own)
        return f"SELECT {selected}\nFROM {backticked(reading.table.name)}\nWHERE {test}"

    def _of_correlation(
        self,
        correlation: Correlation,
        member: Correlation,
        slot: int,
        carried: Sequence[Carried],
        depth: int,
    ) -> str:
        """Returns the query of the alerts of another correlation, each with the fields of the event
        that made it."""
        fields = list(dict.fromkeys((*correlation.group_by, *correlation.fields)))
        wanted = [Carried(field=_aliased(correlation, member, f)) for f in fields]
        inner = self.relation(member, [*wanted, *carried], depth + 1)

        def column(field: str) -> Column:
            return Column(f"`c{fields.index(field)}`", STRING)

        own = [f"`c{len(fields) + i}`" for i in range(len(carried))]
        selected = _selected(correlation, "`at`", slot, column, own)
        return f"SELECT {selected}\nFROM (\n{inner})"


def _aliased(correlation: Correlation, member: Member, field: str) -> str:
    """Returns the field of a rule that a name in a correlation stands for."""
    for reference, own in correlation.aliases.get(field, {}).items():
        if member.about.called(reference):
            return own
    return field


def _selected(
    correlation: Correlation,
    time: str,
    slot: int,
    column: Callable[[str], Column],
    carried: Sequence[str],
) -> str:
    """Returns the columns of the relation of events. Groups are compared without case."""
    parts = [f"{time} AS `at`", f"{slot} AS `slot`"]
    parts += [f"LOWER({column(f).text}) AS `g{i}`" for i, f in enumerate(correlation.group_by)]
    if correlation.fields and correlation.kind not in _TEMPORAL:
        parts.append(f"{_value(correlation, [column(f) for f in correlation.fields])} AS `v`")
    parts += [f"{sql} AS `c{i}`" for i, sql in enumerate(carried)]
    return ", ".join(parts)


def _value(correlation: Correlation, columns: list[Column]) -> str:
    """Returns what a metric is made of: texts without case, or a number."""
    if correlation.kind in _TEXT_METRICS:
        return " || CHR(31) || ".join(f"LOWER({c.text})" for c in columns)
    if len(columns) > 1:
        raise Unconvertible(f"{correlation.kind} takes one field, and not {len(columns)}")
    only = columns[0]
    if only.type.root in _NUMBERS:
        return f"CAST({only.sql} AS DOUBLE)"
    return f"TRY_CAST({only.text} AS DOUBLE)"


# ---- windows -------------------------------------------------------------------------------------


def _over(correlation: Correlation, events: str, carried: Sequence[str]) -> str:
    """Returns the events after which the metric of the time before is as the condition says."""
    groups = [f"`g{i}`" for i in range(len(correlation.group_by))]
    metrics = _metrics(correlation)
    named = ", ".join(["`at`", *groups, *carried])
    measured = ", ".join(f"{sql} OVER w AS {name}" for name, sql in metrics.items())
    partition = f"PARTITION BY {', '.join(groups)} " if groups else ""
    window = (
        f"{partition}ORDER BY `at` RANGE BETWEEN {_interval(correlation.seconds)} PRECEDING"
        " AND CURRENT ROW"
    )
    whole = "".join(f" AND {g} IS NOT NULL" for g in groups).removeprefix(" AND ")
    grouped = f"\nWHERE {whole}" if whole else ""
    outer = ", ".join([named, _metric(correlation)])
    return (
        f"SELECT {outer} FROM (\nSELECT {named}, {measured}\nFROM (\n{events}){grouped}\n"
        f"WINDOW w AS ({window}))\nWHERE {_condition(correlation)}"
    )


def _metrics(correlation: Correlation) -> dict[str, str]:
    """Returns the aggregates that the condition needs, by name."""
    if correlation.combination is not None:
        return {
            f"`has{i}`": f"MAX(CASE WHEN `slot` = {i} THEN 1 ELSE 0 END)"
            for i in range(len(correlation.rules))
        }
    match correlation.kind:
        case "event_count":
            made = "COUNT(*)"
        case "value_count":
            made = "COUNT(DISTINCT `v`)"
        case "value_sum":
            made = "SUM(`v`)"
        case "value_avg":
            made = "AVG(`v`)"
        case "value_median" | "value_percentile":
            made = f"PERCENTILE(`v`, {_percentile(correlation)})"
        case "temporal":
            made = "COUNT(DISTINCT `slot`)"
        case kind:
            raise Unconvertible(f"correlations of the type {kind} are unknown")
    return {"`metric`": made}


def _percentile(correlation: Correlation) -> float:
    wanted = 50 if correlation.kind == "value_median" else correlation.percentile
    if wanted is None or not 0 <= wanted <= 100:
        raise Unconvertible(
            "value_percentile does not say which", hint="write 'percentile: 95' in its condition"
        )
    return wanted / 100


def _metric(correlation: Correlation) -> str:
    return "1 AS `metric`" if correlation.combination is not None else "`metric`"


def _condition(correlation: Correlation) -> str:
    if correlation.combination is not None:
        return _combined(correlation.combination, correlation)
    return f"`metric` {correlation.operator} {correlation.number}"


def _combined(node: Combination, correlation: Correlation) -> str:
    if isinstance(node, Of):
        return f"`has{correlation.rules.index(node.rule)}` = 1"
    if node.operator == "NOT":
        raise Unconvertible(
            "'not' in the condition of a correlation asks for what does not come",
            hint="write it as SQL with [^B] of MATCH_RECOGNIZE",
        )
    return "(" + f" {node.operator} ".join(_combined(c, correlation) for c in node.children) + ")"


# ---- order ---------------------------------------------------------------------------------------


def _in_order(correlation: Correlation, events: str, carried: Sequence[str]) -> str:
    """Returns the events with which the rules have matched one after the other."""
    last = len(correlation.rules) - 1
    _check_order(correlation)
    groups = [f"`g{i}`" for i in range(len(correlation.group_by))]
    partition = f"  PARTITION BY {', '.join(groups)}\n" if groups else ""
    measures = ["MATCH_ROWTIME() AS `at`", f"{last + 1} AS `metric`"]
    measures += [f"LAST(R{last}.{c}) AS {c}" for c in carried]
    pattern = "R0" + "".join(f" X{i}*? R{i}" for i in range(1, last + 1))
    defined = ["R0 AS R0.`slot` = 0"]
    defined += [
        f"R{i} AS R{i}.`slot` = {i} AND R{i}.`at` > LAST(R{i - 1}.`at`)" for i in range(1, last + 1)
    ]
    whole = "".join(f" AND {g} IS NOT NULL" for g in groups).removeprefix(" AND ")
    grouped = f"SELECT * FROM (\n{events})\nWHERE {whole}" if whole else events
    return (
        f"SELECT * FROM (\n{grouped})\nMATCH_RECOGNIZE (\n{partition}  ORDER BY `at`\n"
        f"  MEASURES {', '.join(measures)}\n  ONE ROW PER MATCH\n  AFTER MATCH SKIP PAST LAST ROW\n"
        f"  PATTERN ({pattern}) WITHIN {_interval(correlation.seconds, '.001')}\n"
        f"  DEFINE {', '.join(defined)})"
    )


def _check_order(correlation: Correlation) -> None:
    needed = len(correlation.rules)
    met = correlation.operator == ">=" and correlation.number == needed
    met |= correlation.operator == "=" and correlation.number == needed
    met |= correlation.operator == ">" and correlation.number == needed - 1
    node = correlation.combination
    if node is not None:
        met = isinstance(node, Of) or (
            node.operator == "AND" and all(isinstance(c, Of) for c in node.children)
        )
    if not met:
        raise Unconvertible(
            "temporal_ordered is converted for all of its rules, one after the other"
        )


def _interval(seconds: int, rest: str = "") -> str:
    days, left = divmod(seconds, 86_400)
    hours, left = divmod(left, 3600)
    clock = f"{hours:02}:{left // 60:02}:{left % 60:02}{rest}"
    return f"INTERVAL '{days} {clock}' DAY({max(2, len(str(days)))}) TO SECOND(3)"
