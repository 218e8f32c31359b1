"""Functions of users that take the rows of tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from parser.errors import ExecutionError
from parser.types import DataType
from sqlengine.functions.host import Binding
from sqlengine.functions.kernels import argument_schema, arguments
from sqlengine.functions.pool import POOL
from sqlengine.functions.protocol import batch_blob
from udf.user import UserFunction, coerce
from udf.vector import Vector

_sinks: dict[str, UserFunction] = {}


def register_sink(function: UserFunction) -> None:
    """Makes a sink known by its identity."""
    _sinks[function.identity] = function


class SinkFunction:
    """A sink for columns of certain types."""

    def __init__(self, identity: str, types: Sequence[DataType]) -> None:
        """ExecutionError where the module of the function is not loaded."""
        if identity not in _sinks:
            raise ExecutionError(
                f"function '{identity}' is not loaded", hint="submit the job that defines it again"
            )
        self._function = _sinks[identity]
        self._schema = argument_schema(coerce(self._function, types))
        self._binding = Binding(self._function.place, (self._schema,), self._function.vectorized)

    @property
    def place(self) -> str:
        return self._function.place

    def deliver(self, columns: Sequence[pa.Array], rows: int) -> str | None:
        """Gives rows to the function; why it did not take one."""
        batch = arguments([Vector(c) for c in columns], rows, self._schema, None)

        def ask(start: int, end: int) -> tuple[dict[str, object], list[pa.Buffer]]:
            return {}, [batch_blob(batch.slice(start, end - start))]

        failures = POOL.host(self._function.content).run(
            self._binding, rows, ask, lambda start, end, blobs: None
        )
        return failures[0][1] if failures else None
