"""The connector 'python': tables whose rows go to Python code.

    CREATE FUNCTION notify AS 'pager.notify' LANGUAGE PYTHON; CREATE TABLE pages (rule STRING, host
    STRING) WITH ('connector' = 'python', 'function' = 'notify')

'function' names a function that is declared with `@sqlengine.sink`; it runs in the process of its
module. 'callable' names one that the program which embeds the engine has given it; it is called in
a thread of its table with a pyarrow.RecordBatch, whose first column `op` says '+I', '-U', '+U' or
'-D'. Rows of an epoch come together, at least once: again after a crash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar, Final, TypeAlias

import pyarrow as pa

from parser.errors import (
    ExecutionError,
    OptionError,
    SqlError,
    UnknownObject,
)
from parser.types import STRING, DataType
from planner.capabilities import Capabilities, DeliveryGuarantee, SinkCapabilities
from planner.catalog import Catalog, Function, Table
from planner.logical.change_kinds import ALL_CHANGES, INSERT_ONLY, UPSERT
from sqlengine.batch import Batch, RowKind, concat
from sqlengine.connectors.base import Connector, Sink
from sqlengine.connectors.environment import Environment
from sqlengine.formats.base import Option
from sqlengine.functions.sinks import SinkFunction
from udf.user import Kind, UserFunction, coerce, is_user, takes_changes

_FUNCTION: Final = "function"
_CALLABLE: Final = "callable"
# What `with_function` has found of the function, for those who know its identity only.
_CHANGES: Final = "function.takes-changes"
_OP: Final = "op"

# Takes the rows of one epoch.
Deliver: TypeAlias = Callable[[Batch], None]


class PythonConnector(Connector):
    name: ClassVar[str] = "python"
    options: ClassVar[Mapping[str, Option]] = {
        _FUNCTION: Option(doc="a function declared with @sqlengine.sink, by its name in SQL"),
        _CALLABLE: Option(doc="what the embedding program has given the engine under this name"),
        _CHANGES: Option(doc="set by the engine"),
    }
    capabilities: ClassVar[Capabilities] = Capabilities(
        sink=SinkCapabilities(
            changelog=ALL_CHANGES,
            guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
            condition="rows since the last checkpoint are delivered again after a crash",
            isolated_jobs=True,
        )
    )

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`. A function takes changes if it has a parameter for their kinds, a
        callable always does."""
        if _CALLABLE not in table.options and _CHANGES not in table.options:
            mode = INSERT_ONLY
        else:
            mode = UPSERT if table.primary_key else ALL_CHANGES
        return self.capabilities.with_changelog(sink=mode)

    def sink(self, table: Table, environment: Environment) -> Sink:
        """See `Connector`. OptionError where neither or both of 'function' and 'callable' are
        given; PlanError where the one given does not exist."""
        _check(table)
        name = table.options.get(_CALLABLE)
        if name is None:
            return PythonSink(_to_function(table))
        if name not in environment.callables:
            known = ", ".join(sorted(environment.callables)) or "none"
            raise OptionError(
                f"there is no callable '{name}' for table '{table.display}'",
                detail=f"given to the engine: {known}",
                hint=(
                    "callables come from the program that embeds the engine: Engine(config,"
                    " callables={…})"
                ),
                subject=_CALLABLE,
            )
        return PythonSink(_to_callable(table, name, environment.callables[name]))


def _check(table: Table) -> None:
    if (_FUNCTION in table.options) is (_CALLABLE in table.options):
        raise OptionError(
            f"table '{table.display}' needs the option 'function', or 'callable'", subject=_FUNCTION
        )
    if not is_user(table.options.get(_FUNCTION, "@")):
        raise OptionError(
            f"'function' of table '{table.display}' cannot be changed by a hint",
            hint="declare another table, LIKE this one",
            subject=_FUNCTION,
        )


def with_function(table: Table, catalog: Catalog) -> tuple[Table, Function | None]:
    """Returns the table with the identity of its function in the place of its name, and the
    function.

    The identity is that of the function's module as it is now. A table of any other connector is
    returned as it is. SqlError where the table names no function, or one that its columns do not
    fit."""
    name = table.options.get(_FUNCTION)
    if table.options.get("connector") != PythonConnector.name or name is None:
        return table, None
    function = catalog.function(tuple(name.split(".")))
    if function is None:
        hint = "CREATE FUNCTION … LANGUAGE PYTHON comes before the table"
        raise UnknownObject(
            f"function '{name}' of table '{table.display}' does not exist",
            hint=hint,
            subject=_FUNCTION,
        )
    user = function.user
    if user.kind is not Kind.SINK:
        raise OptionError(
            f"function '{name}' of table '{table.display}' is no sink, but {user.kind.value}",
            hint="declare it with @sqlengine.sink",
            subject=_FUNCTION,
        )
    changes = takes_changes(user)
    _check_columns(table, name, user, [STRING] if changes else [])
    rest = {key: text for key, text in table.options.items() if key != _CHANGES}
    options = {**rest, _FUNCTION: user.identity, **({_CHANGES: "true"} if changes else {})}
    return replace(table, options=options), function


def _check_columns(table: Table, name: str, user: UserFunction, before: list[DataType]) -> None:
    """Raises PlanError where a function cannot be called with a table's columns, behind those
    `before` them."""
    try:
        coerce(user, before + [c.type for c in table.physical])
    except SqlError as error:
        message = f"the columns of table '{table.display}' do not fit function '{name}'"
        raise OptionError(
            message,
            detail=error.message,
            hint=f"it is {user.signature.partition(' ->')[0]}",
            subject=_FUNCTION,
        ) from None


class PythonSink(Sink):
    """Delivers the rows of an epoch together, at its commit."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._pending: list[Batch] = []

    def last_epoch(self) -> int | None:
        return None

    def write(self, batch: Batch) -> None:
        if batch.num_rows:
            self._pending.append(batch)

    def commit(self, epoch: int) -> int:
        """See `Sink`. ExecutionError with the exception where a row is not taken."""
        pending, self._pending = self._pending, []
        if not pending:
            return 0
        rows = concat(pending)
        self._deliver(rows)
        return rows.num_rows

    def close(self) -> None: ...


def _to_function(table: Table) -> Deliver:
    """Returns the call of the table's function, in its process."""
    changes = [STRING] if _CHANGES in table.options else []
    function = SinkFunction(table.options[_FUNCTION], [*changes, *(c.type for c in table.physical)])

    def deliver(rows: Batch) -> None:
        columns = [rows.column(c.name) for c in table.physical]
        reason = function.deliver([_ops(rows), *columns] if changes else columns, rows.num_rows)
        if reason is not None:
            raise _refused(f"function '{function.place}'", table, reason)

    return deliver


def _to_callable(table: Table, name: str, target: Callable[[pa.RecordBatch], object]) -> Deliver:
    """Returns the call of an embedding program's callable."""
    schema = pa.schema(
        [pa.field(_OP, pa.string()), *(pa.field(c.name, c.type.arrow) for c in table.physical)]
    )

    def deliver(rows: Batch) -> None:
        columns = [_ops(rows), *(rows.column(c.name) for c in table.physical)]
        try:
            target(pa.RecordBatch.from_arrays(columns, schema=schema))
        except Exception as error:
            raise _refused(
                f"callable '{name}'", table, f"{type(error).__name__}: {error}"
            ) from error

    return deliver


def _ops(rows: Batch) -> pa.Array:
    if rows.kinds is None:
        return pa.repeat(pa.scalar(RowKind.INSERT.short), rows.num_rows)
    return pa.array([k.short for k in RowKind]).take(pa.array(rows.kinds))


def _refused(what: str, table: Table, reason: str) -> ExecutionError:
    return ExecutionError(
        f"{what} did not take the rows of table '{table.display}'",
        detail=reason,
        hint=(
            "put it right, and start the job again: 'sql start JOB'; rows of the epoch may have"
            " been taken already"
        ),
    )
