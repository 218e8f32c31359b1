"""Rules that are planned over tables that stand in for those of their texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from parser import parse
from parser.errors import SqlError
from parser.rule_head import Field, rule_head
from parser.statements import CreateTable
from planner.catalog import Catalog, CatalogObject, Identifier, Table
from planner.logical import LogicalPlan, LookupJoin, Scan, Sink
from planner.logical.change_kinds import ChangelogMode, RowKind
from planner.logical.endpoints import LookedUpScan
from planner.rewrite import nodes
from planner.rule_settings import Rule, at_head, rule_in, rule_settings
from sqlengine.connectors.registry import capabilities_of, declared
from sqlengine.functions.library import Library
from sqlengine.jobs.script import Script, apply
from sqlengine.jobs.unknown_options import UnknownOptions
from udf.user import UserFunction

MEMORY = "memory"


@dataclass(frozen=True)
class TrialRule:
    """A rule that can be run over given rows.

    `sinks`: the optimised plans of its INSERTs; `catalog`: what its text sees, with the tables that
    stand in; `reads`, `writes`: the tables, in the order of the text."""

    name: str
    text: str
    file: str | None
    catalog: StandIns
    sinks: tuple[Sink, ...]
    settings: Mapping[str, str]
    rule: Rule
    reads: tuple[Table, ...]
    writes: tuple[Table, ...]
    functions: tuple[UserFunction, ...] = ()

    @property
    def streams(self) -> tuple[Table, ...]:
        """The tables that it reads, without those in which it only looks rows up."""
        found, waiting = set[Identifier](), list[LogicalPlan](self.sinks)
        while waiting:
            node = waiting.pop()
            if isinstance(node, Scan):
                found.add(node.table.name)
            waiting += [node.left] if isinstance(node, LookupJoin) else node.inputs
        return tuple(table for table in self.reads if table.name in found)


@dataclass(frozen=True)
class StandIns:
    """A catalog in which others stand in for tables: by default tables in memory (`stand_in`).
    `written`: those that they stand in for, as their texts have them: two texts may define a table
    in equal words."""

    catalog: Catalog = field(default_factory=Catalog)
    written: Mapping[Identifier, CatalogObject] = field(default_factory=dict)
    stand_in: Callable[[Table], Table] = field(default_factory=lambda: in_memory)

    def reverted(self) -> Catalog:
        """Returns the catalog as the texts have it."""
        return replace(self.catalog, objects={**self.catalog.objects, **self.written})

    def table_of(self, stand_in: Table) -> Table | None:
        """Returns the table that one in memory stands in for; None where its text has it so."""
        found = self.written.get(stand_in.name)
        return found if isinstance(found, Table) else None

    def taking(self, catalog: Catalog) -> StandIns:
        """Returns this with another catalog, whose tables are as the texts have them."""
        objects = {
            name: self.stand_in(item) if isinstance(item, Table) else item
            for name, item in catalog.objects.items()
        }
        temporary = {
            name: self.stand_in(item) if isinstance(item, Table) else item
            for name, item in catalog.temporary.items()
        }
        made = replace(catalog, objects=objects, temporary=temporary)
        written = {n: o for n, o in catalog.objects.items() if isinstance(o, Table)}
        return replace(self, catalog=made, written=written)


def plan_rule(
    name: str, text: str, file: str | None, given: StandIns, library: Library | None
) -> TrialRule:
    """Plans a rule over the tables that stand in. SqlError with the file and the position, also for
    a text that would be refused as a job."""
    head: Mapping[str, Field] = {}
    try:
        head = rule_head(text) or {}
        options = UnknownOptions(lambda note: None, accepted=True)
        script = Script(name, given.catalog, rule_settings(head), library, {}, {}, options)
        for statement in parse(text):
            if isinstance(statement, CreateTable) and statement.query is None:
                script.catalog = replace(given, catalog=script.catalog).reverted()
                apply(script, statement)
                given = given.taking(script.catalog)
                script.catalog = given.catalog
            else:
                apply(script, statement)
    except SqlError as error:
        raise at_head(error, head).in_file(file) from None
    return TrialRule(
        name,
        text,
        file,
        replace(given, catalog=script.catalog),
        tuple(script.sinks),
        script.settings,
        rule_in(script.settings) or Rule(),
        read_by(script.sinks),
        tuple({s.table.name: s.table for s in script.sinks if s.table is not None}.values()),
        tuple(script.functions.values()),
    )


def in_memory(table: Table) -> Table:
    """Returns the table in memory, whose rows have the kinds that those of the table may have."""
    if not table.options or table.connector == MEMORY:
        return table
    can = capabilities_of(table)
    source = None if can.source is None else can.source.changelog
    sink = None if can.sink is None else can.sink.changelog
    options = {"connector": MEMORY, "name": ".".join(table.name), **_mode(source, sink)}
    return declared(replace(table, options=options))


def _mode(source: ChangelogMode | None, sink: ChangelogMode | None) -> dict[str, str]:
    """The option 'changelog-mode'. Without it additions come, and changes are taken, too."""
    comes_changed = source is not None and not source.is_insert_only
    takes_changes = sink is None or not sink.is_insert_only
    if not comes_changed and takes_changes:
        return {}
    kinds = source.kinds if source is not None and comes_changed else {RowKind.INSERT}
    short = {"+I": "I", "-U": "UB", "+U": "UA", "-D": "D"}
    return {"changelog-mode": ",".join(short[kind.short] for kind in sorted(kinds))}


def read_by(sinks: Sequence[Sink]) -> tuple[Table, ...]:
    """Returns the tables that plans read, each once, also those in which they look rows up."""
    found: dict[Identifier, Table] = {}
    waiting: list[LogicalPlan] = list(sinks)
    while waiting:
        for node in nodes(waiting.pop()):
            if isinstance(node, LookedUpScan) and node.rows is not None:
                waiting.append(node.rows)
            if isinstance(node, Scan):
                found.setdefault(node.table.name, node.table)
    return tuple(found.values())
