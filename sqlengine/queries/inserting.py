"""INSERTs of a client's session: run to their end, or submitted as jobs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from parser.statements import Insert, Reset, Set, StatementSet
from parser.types import DataType
from planner.binder.inserts import writable
from planner.catalog import Catalog, Table
from planner.logical import Sink
from planner.rewrite import transform_sink
from planner.settings import RUNTIME_MODE, flag, is_batch
from sqlengine.access.plans import check_plans
from sqlengine.access.policy import Action, require
from sqlengine.executors.sources import Endless
from sqlengine.jobs.job import check_name
from sqlengine.queries.ad_hoc import AdHocSession
from sqlengine.queries.client_session import own_objects
from sqlengine.queries.insert_jobs import NAME, new_name, text_of

SYNCHRONOUS: Final = "table.dml-sync"


@dataclass
class InsertingSession(AdHocSession):
    """Executes the statements of a client that may write. An INSERT whose input ends runs to its
    end here; any other is submitted as a job. 'table.dml-sync' says for both whether the client
    waits: with 'false' all are jobs, but in batch mode, with 'true' it waits until the job ends.

    `shared`: the server's catalog; `told`: the settings as the client knows them; `job`: the name
    of the job that an INSERT is to become, however its input ends; `submit`: takes the name and the
    text of a job, `wait`: returns when that of a name has ended."""

    shared: Catalog = field(default_factory=Catalog)
    told: Mapping[str, str] = field(default_factory=dict)
    job: str | None = None
    submit: Callable[[str, str], None] = lambda name, text: None
    wait: Callable[[str], None] = lambda name: None
    _became: tuple[str, bool] | None = field(default=None, init=False)

    def _configure(self, statement: Set | Reset) -> None:
        """See `Session`. In the text of a job, which that checks, these mean nothing."""
        if statement.key not in (NAME, SYNCHRONOUS):
            super()._configure(statement)
        elif isinstance(statement, Set):
            given = {statement.key: statement.value or ""}
            flag(given, SYNCHRONOUS, default=False)
            self.settings |= given
        else:
            self.settings.pop(statement.key, None)

    def _insert(self, number: int, statement: Insert | StatementSet) -> None:
        sinks = self._sinks_of_insert(statement)
        check_plans(self.by, sinks)
        name = new_name(statement, self.settings) if self.job is None else check_name(self.job)
        require(self.by, Action.CHANGE_JOB, name)
        if is_batch(self.settings):
            sinks = tuple(transform_sink(s, self._looked_at) for s in sinks)
        submitted = self._at_once or not self._has_run(sinks)
        if submitted:
            self._submit(name, statement)
        self._became = name, submitted

    def _sinks_of_insert(self, statement: Insert | StatementSet) -> Sequence[Sink]:
        return self._plan(statement).sinks

    @property
    def _at_once(self) -> bool:
        """True where an INSERT is to be a job whatever its input. Batch mode has no jobs."""
        waits = flag(self.settings, SYNCHRONOUS, default=True)
        return self.job is not None or not (waits or is_batch(self.settings))

    def _has_run(self, sinks: Sequence[Sink]) -> bool:
        """Runs an INSERT; False for one whose input has no end, which is an error in batch mode."""
        try:
            self._run_whole(sinks)
        except Endless:
            if is_batch(self.settings):
                raise
            return False
        return True

    def _run_whole(self, sinks: Sequence[Sink]) -> None:
        self.runner.run(sinks, {**self.settings, RUNTIME_MODE: "batch"}, lambda rows: None)

    def settle(self) -> None:
        """See `AdHocSession`: answers for an INSERT, once its job has ended if the client waits."""
        if self._became is None:
            return
        name, submitted = self._became
        if submitted and flag(self.settings, SYNCHRONOUS, default=False):
            self.wait(name)
        self._inserted(name, submitted=submitted)

    @abstractmethod
    def _inserted(self, name: str, *, submitted: bool) -> None:
        """Tells the client what has become of an INSERT: its rows are written, or it is the job of
        that name."""

    def _submit(self, name: str, statement: Insert | StatementSet) -> None:
        own = {**own_objects(self.catalog, self.shared), **self.catalog.temporary}
        self.submit(name, text_of(statement, self.catalog, own, self.told))


def with_typed_nulls(statement: Insert, catalog: Catalog) -> Insert:
    """Returns INSERT … VALUES, or … SELECT, with the types of the table's columns at the NULLs in
    it: Flink asks for them, and drivers do not know them."""
    query, table = statement.query, catalog.get(statement.target)
    if not isinstance(query, exp.Values | exp.Select) or not isinstance(table, Table):
        return statement
    types = {c.name: c.type for c in writable(table)}
    given = {part.name for part in statement.partition}
    columns = [".".join(c) for c in statement.columns] or [n for n in types if n not in given]
    if not types.keys() >= set(columns):
        return statement  # the planner says which of them there is not
    kinds = [types[name].with_nullable(True) for name in columns]
    if isinstance(query, exp.Values):
        rows = [exp.Tuple(expressions=_typed(r.expressions, kinds)) for r in query.expressions]
        return replace(statement, query=exp.Values(expressions=rows))
    selected = query.copy()
    selected.set("expressions", _typed(selected.expressions, kinds))
    return replace(statement, query=selected)


def _typed(values: Sequence[exp.Expression], kinds: Sequence[DataType]) -> Sequence[exp.Expression]:
    """Returns the values of a row, with types at its NULLs."""
    if len(values) != len(kinds) or not any(isinstance(v, exp.Null) for v in values):
        return values
    return [
        exp.Cast(this=value, to=exp.DataType(this=exp.DType.USERDEFINED, kind=kind))
        if isinstance(value, exp.Null)
        else value
        for value, kind in zip(values, kinds, strict=True)
    ]
