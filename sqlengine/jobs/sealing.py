"""Takes passwords that are written plainly out of texts of jobs before anything is kept of these.

A text keeps marks in their place (`sqlengine.system.sealed_values`), which users see as '******'.
Where somebody submits a text with such masks, they stand for what the job had in the same option of
the same table. Values that stand plainly in texts of before stay as they are: another text would be
another table, for what is kept of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from parser.errors import PlanError, Position, SqlError
from parser.limits import refused
from parser.places import Places
from planner.catalog import Table, View
from planner.logical import LogicalPlan, Scan, Sink
from planner.rewrite import nodes
from sqlengine.connectors.plain_secrets import (
    OptionValue,
    Rewritten,
    masked,
    masked_option,
    option_values,
    plain_values,
    rewritten,
)
from sqlengine.connectors.registry import get_connector
from sqlengine.connectors.secret_options import use_of
from sqlengine.jobs.planning import JobText, PlannedJob
from sqlengine.system.hidden import MASK, SEALED, hide
from sqlengine.system.sealed_values import SealedValues

# The place in front of a warning.
_PLACE: Final = re.compile(r"(\d+):(\d+): ", re.ASCII)


@dataclass(frozen=True)
class SealedText:
    """A text without its passwords. `given`: the names of those that it had; `warning`: of these,
    if there are any."""

    text: JobText
    written: str
    made: Rewritten
    given: frozenset[str] = frozenset()
    warning: str | None = None

    def told(self, error: SqlError) -> SqlError:
        """Returns an error as it is told to who wrote the text: with the places in that, without
        its secrets."""
        if self.made.edits and error.position is not None:
            error.position = self._position(error.position)
        return hide(error, plain_values(self.written))

    def warnings(self, warnings: Iterable[str]) -> tuple[str, ...]:
        """Returns warnings with the places in the text as it was written."""
        found = tuple(map(self._warning, warnings)) if self.made.edits else tuple(warnings)
        return found if self.warning is None else (*found, self.warning)

    def _warning(self, text: str) -> str:
        place = _PLACE.match(text)
        if place is None:
            return text
        position = self._position(Position(int(place[1]), int(place[2])))
        return f"{position}: {text[place.end() :]}"

    def _position(self, position: Position) -> Position:
        line, column = moved(self.made, self.written, position)
        return replace(position, line=line, column=column)


def moved(made: Rewritten, before: str, position: Position) -> tuple[int, int]:
    """Returns the line and the column that a place in a rewritten text had in the one before."""
    lines = made.text.split("\n")
    offset = sum(len(line) + 1 for line in lines[: position.line - 1]) + position.column - 1
    return Places(before).line_column(made.before(offset))


def shown(text: str, position: Position | None) -> tuple[Position | None, str]:
    """Returns a place in a text of a job, and the text, as they are shown."""
    told = masked(text)
    if position is None or told == text:
        return position, told
    lines = text.split("\n")
    offset = sum(len(line) + 1 for line in lines[: position.line - 1]) + position.column - 1
    line, column = Places(told).line_column(len(masked(text[:offset])))
    return replace(position, line=line, column=column), told


class Sealing:
    """Seals the texts of one data folder's jobs. `known`: values that stand plainly in present
    texts. Any thread."""

    def __init__(self, store: SealedValues) -> None:
        self._store = store
        self._known: frozenset[str] = frozenset()

    def begin(self, present: Iterable[str], every: Iterable[str]) -> None:
        """Learns the present texts of jobs, and drops what no text of all versions needs."""
        found = (f for text in present for f in option_values(text))
        self._known = frozenset(s for f in found for s in f.secrets if s != MASK)
        if kept := self._store.names():
            self._store.drop(kept - set(_names(every)))

    def sealed(self, text: JobText, before: str = "") -> SealedText:
        """Returns a text with marks in the place of its passwords, which are kept. `before`: the
        present text of the job. PlanError for a mask that stands for nothing there."""
        if refused(len(text.sql), "text_size") is not None:
            return SealedText(text, "", Rewritten(text.sql))  # nothing is made of it, or kept
        given: set[str] = set()
        plain: list[OptionValue] = []
        earlier: dict[tuple[str, str, int], OptionValue] | None = None

        def change(found: OptionValue) -> str:
            nonlocal earlier
            if MASK in found.secrets:
                if earlier is None:
                    earlier = {f.key: f for f in option_values(before)}
                return _unmasked(found, earlier.get(found.key), text)
            if not self._known.isdisjoint(found.secrets):
                return found.value.written
            plain.append(found)
            return found.written(lambda value: self._mark(value, given))

        try:
            made = rewritten(text.sql, change)
        except SqlError:
            self._store.release(given)
            raise
        changed = replace(text, sql=made.text, given=frozenset(given))
        return SealedText(changed, text.sql, made, frozenset(given), _warning(text.sql, plain))

    def form(self, sql: str) -> str:
        """Returns a text as `sealed` does, and keeps nothing; masks stay what they are."""

        def change(found: OptionValue) -> str:
            if MASK in found.secrets or not self._known.isdisjoint(found.secrets):
                return found.value.written
            return found.written(lambda value: f"${{sealed:{self._store.name_of(value)}}}")

        return rewritten(sql, change).text

    def _mark(self, value: str, given: set[str]) -> str:
        name = self._store.name_of(value)
        if name not in given:
            given.add(self._store.keep(value))
        return f"${{sealed:{name}}}"

    def end(self, given: Collection[str], every: Iterable[str]) -> None:
        """Ends a change: what it has kept is dropped where no text of all versions has it."""
        self._store.release(given)
        if given:
            self._store.drop(set(given) - set(_names(every)))

    def defer(self, text: JobText, version: int) -> None:
        """Notes that a text which has to wait for a table has given its values."""
        for name in text.given:
            self._store.admit(name, f"{text.name}@{version}")

    def deferred(self, text: JobText, version: int) -> JobText:
        """Returns a text that has waited, with the values that it has given."""
        use = f"{text.name}@{version}"
        names = set(SEALED.findall(text.sql))
        given = {n for n in names if (kept := self._store.get(n)) is not None and use in kept[1]}
        return replace(text, given=frozenset(given))

    def admit(self, given: Collection[str], plan: PlannedJob) -> None:
        """Lets values go where the tables of a plan are, whose text has given them."""
        for table in tables_of(plan) if given else ():
            connector = get_connector(table.options.get("connector", ""))
            if connector is None:
                continue
            for option, text in table.options.items():
                for name in {n for n in SEALED.findall(text) if n in given}:
                    self._store.admit(name, use_of(option, table.options, connector))


def tables_of(plan: PlannedJob) -> Iterator[Table]:
    """Yields the tables that a plan defines, reads and writes."""
    roots: list[LogicalPlan] = list(plan.sinks)
    for item in plan.objects:
        if isinstance(item, Table):
            yield item
        elif isinstance(item, View):
            roots.append(item.plan)
    for root in roots:
        for node in nodes(root):
            if isinstance(node, Scan | Sink) and node.table is not None:
                yield node.table


def _names(texts: Iterable[str]) -> Iterator[str]:
    """Yields the names of the values that texts have marks of."""
    return (name for text in texts if "${sealed:" in text for name in SEALED.findall(text))


def _unmasked(found: OptionValue, earlier: OptionValue | None, text: JobText) -> str:
    """Returns the literal that the job has had where a mask stands now."""
    value = found.value
    if earlier is not None:
        had = earlier.value
        options = had.options or value.options
        if masked_option(had.option, had.text, options) == value.text:
            return had.written
    if value.comment:
        return value.written
    where = f"option '{value.option}'" + (f" of table '{value.owner}'" if value.owner else "")
    raise PlanError(
        f"{where} has '{MASK}', which stands for nothing here",
        detail="a mask keeps what the job had in the same option of the same table, where nothing"
        " else of its value has changed",
        hint="write the password again, or refer to it: '${secret:NAME}'",
        position=Places(text.sql).at(value.start, len(value.written)),
    )


def _warning(sql: str, plain: list[OptionValue]) -> str | None:
    """Returns a line on passwords that a text has plainly."""
    if not plain:
        return None
    places = Places(sql)
    named = ", ".join(f"{places.at(found.value.start)}: '{found.value.option}'" for found in plain)
    remedies = dict.fromkeys(found.remedy for found in plain)
    said = (f"{named} {'is' if len(plain) == 1 else 'are'} written plainly", *remedies)
    return "; ".join(text for text in said if text)
