"""Statements of a session of Flink's SQL Gateway: what it defines is its own, what it inserts is a
job."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from parser.errors import UnsupportedError
from parser.statements import (
    Alter,
    CreateFunction,
    CreateTable,
    Drop,
    Insert,
    Kind,
    Query,
    Set,
    Statement,
    StatementSet,
)
from parser.types import STRING, Column, Schema
from planner.catalog import Catalog, Identifier
from planner.logical import Sink
from planner.rewrite import transform_sink
from planner.settings import RUNTIME_MODE, is_batch
from sqlengine.access.plans import check_plans
from sqlengine.access.policy import Action, require
from sqlengine.api.gateway.insert_jobs import job_id, new_name, text_of
from sqlengine.batch import from_pydict
from sqlengine.catalog.changes import database_of
from sqlengine.executors.sources import Endless
from sqlengine.queries.ad_hoc import AdHocSession
from sqlengine.queries.client_session import own_objects

SYNCHRONOUS: Final = "table.dml-sync"
JOB_ID: Final = Schema((Column("job id", STRING),))
_SETTINGS: Final = Schema((Column("key", STRING), Column("value", STRING)))


@dataclass
class GatewaySession(AdHocSession):
    """Executes the statements of a client of Flink against the catalog of a server.

    A SELECT gives its changelog, or in batch mode its final rows. An INSERT whose input ends runs
    to its end here, unless 'table.dml-sync' is 'false'; any other is submitted as a job.

    `shared`: the server's catalog; `told`: the settings as the client knows them; `submit`: takes
    the name and the text of a job."""

    shared: Catalog = field(default_factory=Catalog)
    told: Mapping[str, str] = field(default_factory=dict)
    submit: Callable[[str, str], None] = lambda name, text: None

    def __post_init__(self) -> None:
        self.follow = not is_batch(self.settings)

    def execute(self, number: int, statement: Statement) -> None:
        """See `AdHocSession`. UnsupportedError for a change of what the server's jobs define."""
        before = self.catalog
        super().execute(number, statement)
        made = own_objects(self.catalog, before) if self.catalog is not before else {}
        try:
            check_plans(self.by, (), made.values())
        except BaseException:
            self.catalog = before
            raise

    def _check(self, statement: Statement) -> None:
        match statement:
            case CreateFunction():
                require(self.by, Action.USE_FUNCTION, statement.class_name)
            case CreateTable(replace=True) | Drop() | Alter():
                name = self._name(statement)
                if name in self.shared.objects and name not in own_objects(
                    self.catalog, self.shared
                ):
                    raise UnsupportedError(
                        f"'{'.'.join(statement.name)}' belongs to the server, not to this session",
                        detail="jobs define it for all",
                        hint="submit the job that defines it again, or remove it: sql remove",
                        position=statement.position,
                    )

    def _name(self, statement: CreateTable | Drop | Alter) -> Identifier:
        kind = Kind.TABLE if isinstance(statement, CreateTable) else statement.kind
        if kind is Kind.CATALOG:
            return (statement.name[0], "", "")
        if kind is Kind.DATABASE:
            return (*database_of(self.catalog, statement.name), "")
        if kind is Kind.FUNCTION:
            return self.catalog.resolve_function(statement.name)
        return self.catalog.resolve(statement.name)

    def _define(self, statement: Statement) -> None:
        if isinstance(statement, Set) and statement.key is None:
            rows = sorted(self.told.items())
            columns = {"key": [k for k, _ in rows], "value": [v for _, v in rows]}
            self._table(0, from_pydict(_SETTINGS, columns))
            return
        super()._define(statement)

    def _query(self, number: int, statement: Query) -> None:
        self.buffer.is_query = True
        super()._query(number, statement)

    def _insert(self, number: int, statement: Insert | StatementSet) -> None:
        sinks: Sequence[Sink] = self._plan(statement).sinks
        check_plans(self.by, sinks)
        name = new_name(statement, self.settings)
        require(self.by, Action.CHANGE_JOB, name)
        batch = is_batch(self.settings)
        if batch:
            sinks = tuple(transform_sink(s, self._looked_at) for s in sinks)
        if self.settings.get(SYNCHRONOUS, "").lower() == "false" and not batch:
            self._submit(name, statement)
        else:
            try:
                self.runner.run(sinks, {**self.settings, RUNTIME_MODE: "batch"}, lambda rows: None)
            except Endless:
                if batch:
                    raise
                self._submit(name, statement)
        self.buffer.job = name
        self.buffer.announce(JOB_ID)
        self.buffer.put(from_pydict(JOB_ID, {"job id": [job_id(name)]}))

    def _submit(self, name: str, statement: Insert | StatementSet) -> None:
        own = {**own_objects(self.catalog, self.shared), **self.catalog.temporary}
        self.submit(name, text_of(statement, self.catalog, own, self.told))
