"""The check of settings and options in a script that nobody reads: they are refused with their
place, or noted once and left out, as 'job.unknown-options' says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from parser.alterations import Alter, SetOptions
from parser.dialect import position_of
from parser.errors import ColumnError, OptionError, Position, SqlError
from parser.statements import CreateTable, Insert, Query, Reset, Set, Statement, StatementSet
from planner import PlannedStatement
from planner.capabilities import Capabilities
from planner.catalog import Table
from planner.logical import LogicalPlan, Scan, Sink
from planner.rewrite import transform_sink
from planner.setting_keys import check_reset, check_setting, ignores_unknown
from sqlengine.connectors.registry import capabilities_of, unknown_options, without_unknown
from sqlengine.jobs.definition_places import Definitions


@dataclass
class UnknownOptions:
    """The check of one script. `warn` takes a note for each setting without effect and for each
    option that is left out, once each. `accepted`: the script was taken by an earlier version of
    this program, which did not check; nothing of it is refused now."""

    warn: Callable[[str], None]
    accepted: bool = False
    definitions: Definitions = field(default_factory=Definitions)
    _noted: set[str] = field(default_factory=set)

    def begin_text(self) -> None:
        """Forgets the positions in the text before."""
        self.definitions.clear()

    def check_setting(self, statement: Set | Reset, settings: Mapping[str, str]) -> None:
        """Checks the key of SET or RESET. OptionError, UnsupportedError with its position."""
        if statement.key is None:
            return
        place = statement.subject or statement.position
        try:
            if isinstance(statement, Reset):
                check_reset(statement.key, settings)
                return
            note = check_setting(statement.key, statement.value or "", settings)
        except OptionError as error:
            if not self.accepted:
                raise error.at(place) from None
            note = error.message
        if note is not None:
            self._note(note, place)

    def defined(
        self, table: Table, statement: Statement | None, settings: Mapping[str, str]
    ) -> Table:
        """Returns a table that is defined, without the options that nobody reads where these are
        ignored. As in Flink, others are refused once the table is used."""
        return self.known(table, statement, settings) if self._ignores(settings) else table

    def known(
        self, table: Table, statement: Statement | None, settings: Mapping[str, str]
    ) -> Table:
        """Returns the table as it is, or without options that nobody reads. OptionError with the
        position of the first of them, in this statement or in the one that defined the table."""
        unknown = unknown_options(table)
        if not unknown:
            return table
        ignored = self._ignores(settings)
        for error in unknown:
            error.about_table(table.name)
            if statement is not None:
                self.locate(error, statement)
            if not ignored:
                raise error
            self._note(f"{error.message} is ignored", error.position)
        return without_unknown(table)

    def planned(
        self,
        statement: Query | Insert | StatementSet,
        settings: Mapping[str, str],
        plan: Callable[[Callable[[Table], Capabilities]], PlannedStatement],
    ) -> PlannedStatement:
        """Returns what `plan` makes, which is given the capabilities of tables: without the options
        in hints that nobody reads. OptionError with the position of the first of them."""

        def visit(node: LogicalPlan) -> LogicalPlan:
            if not isinstance(node, Scan | Sink):
                return node
            if node.table is None:
                return node
            table = self.known(node.table, statement, settings)
            return node if table is node.table else replace(node, table=table)

        planned = plan(lambda t: capabilities_of(self.known(t, statement, settings)))
        return replace(planned, sinks=tuple(transform_sink(s, visit) for s in planned.sinks))

    def locate(self, error: SqlError, statement: Statement) -> SqlError:
        """Gives an error of a statement its place, unless it has one: where the statement names the
        option that is wrong, else where the text defines the table that is to blame, else where the
        statement begins. Returns the error itself."""
        place = _place(error, statement)
        if error.position is not None or place is not None:
            return error.at(place)
        altered = isinstance(statement, Alter)  # what is wrong stands here
        defined = None if altered else self.definitions.place(error)
        if defined is not None and not isinstance(statement, CreateTable):
            error.used_at = statement.position
        return error.at(defined or statement.position)

    def _ignores(self, settings: Mapping[str, str]) -> bool:
        return self.accepted or ignores_unknown(settings)

    def _note(self, text: str, place: Position | None) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self.warn(f"{place}: {text}" if place is not None else text)


def _place(error: SqlError, statement: Statement | None) -> Position | None:
    if error.subject is None or isinstance(error, ColumnError):
        return None
    return dict(_places(statement)).get(error.subject)


def _places(statement: Statement | None) -> Iterator[tuple[str, Position]]:
    """Yields the options that a statement names, each with its position."""
    match statement:
        case CreateTable():
            yield from statement.option_places.items()
        case Alter(action=SetOptions() as action):
            yield from action.places.items()
        case StatementSet():
            for insert in statement.inserts:
                yield from _places(insert)
        case Insert():
            yield from _hinted(statement.hints)
            yield from _places(Query(statement.query, position=statement.position))
        case Query():
            hints = (
                h for t in statement.query.find_all(exp.Table) for h in t.args.get("hints", ())
            )
            yield from _hinted(hints)


def _hinted(hints: Iterable[exp.Expression]) -> Iterator[tuple[str, Position]]:
    for hint in hints:
        for option in hint.find_all(exp.EQ):
            place = position_of(option.this)
            if place is not None:
                yield option.this.name, place
