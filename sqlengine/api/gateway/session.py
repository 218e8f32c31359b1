"""Statements of a session of Flink's SQL Gateway: what it defines is its own, what it inserts is a
job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from parser.errors import UnsupportedError
from parser.statements import (
    Alter,
    CreateFunction,
    CreateTable,
    Drop,
    Kind,
    Query,
    Set,
    Statement,
)
from parser.types import STRING, Column, Schema
from planner.catalog import Identifier
from planner.settings import is_batch
from sqlengine.access.plans import check_plans
from sqlengine.access.policy import Action, require
from sqlengine.batch import from_pydict
from sqlengine.catalog.changes import database_of
from sqlengine.queries.client_session import own_objects
from sqlengine.queries.insert_jobs import job_id
from sqlengine.queries.inserting import InsertingSession

JOB_ID: Final = Schema((Column("job id", STRING),))
_SETTINGS: Final = Schema((Column("key", STRING), Column("value", STRING)))


@dataclass
class GatewaySession(InsertingSession):
    """Executes the statements of a client of Flink against the catalog of a server. A SELECT gives
    its changelog, or in batch mode its final rows."""

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

    def _inserted(self, name: str, *, submitted: bool) -> None:
        self.buffer.job = name
        self.buffer.announce(JOB_ID)
        self.buffer.put(from_pydict(JOB_ID, {"job id": [job_id(name)]}))
