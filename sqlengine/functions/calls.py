"""The calls of functions in a worker for the rows of a batch, one class per kind of function.

An error of the user's code is an error of the row; where memory is short, the rows that are left
wait for a new process (`done` says how many are done)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa

from sqlengine.functions.convert import Failure, row_values, to_column, to_values
from sqlengine.functions.hints import BadSignature, hints_of
from sqlengine.functions.protocol import Header, batch_blob, read_batch
from sqlengine.functions.reasons import reason_of

Answer: TypeAlias = tuple[Header, list[pa.Buffer]]
Call: TypeAlias = Callable[[Header, list[pa.Buffer], memoryview], Answer]


def row_count(header: Header) -> int:
    rows = header["rows"]
    assert isinstance(rows, int)
    return rows


def sql_name(field: pa.Field) -> str:
    return str((field.metadata or {}).get(b"sql", b"?").decode())


def _null(field: pa.Field) -> bool:
    return bool(field.nullable)


class Arguments:
    """The arguments of a function as Python values, made for its type hints."""

    def __init__(self, function: Callable[..., object], schema: pa.Schema, skip: int = 0) -> None:
        self.schema = schema
        hints = self._hints(function)
        names = list(inspect.signature(function).parameters)[skip:]
        # The last one stands for all that `*args` takes.
        self._hints_of = [hints.get(n) for n in (*names, *names[-1:] * len(schema))]

    @staticmethod
    def _hints(function: Callable[..., object]) -> dict[str, object]:
        try:
            return hints_of(function)
        except BadSignature:  # explicit SQL types stand for hints that mean nothing here
            return {}

    def rows(self, blob: pa.Buffer, count: int) -> Iterable[tuple[Any, ...]]:
        if not len(self.schema):
            return [()] * count
        batch = read_batch(blob, self.schema)
        columns = [to_values(c, h) for c, h in zip(batch.columns, self._hints_of, strict=False)]
        return list(zip(*columns, strict=True))


class ScalarCall:
    """A value for each row."""

    def __init__(self, function: Any, arguments: pa.Schema, result: pa.Schema) -> None:
        self._function = function
        self._arguments = Arguments(function, arguments)
        self._result = result

    def __call__(self, header: Header, blobs: list[pa.Buffer], progress: memoryview) -> Answer:
        function = self._function
        rows = self._arguments.rows(blobs[0], row_count(header))
        values: list[object] = []
        failures: list[Failure] = []
        for i, row in enumerate(rows):
            progress[0] = i
            try:
                values.append(function(*row))
            except BaseException as error:  # noqa: BLE001  it is the user's code
                values.append(None)
                failures.append((i, reason_of(error)))
                if isinstance(error, MemoryError):
                    break
        progress[0] = -1
        return scalar_answer(values, failures, self._result)


def scalar_answer(values: list[object], failures: list[Failure], result: pa.Schema) -> Answer:
    """The answer with a value for each row that was done."""
    field, failed = result.field(0), {i for i, _ in failures}
    column, wrong = to_column(values, field.type, sql_name(field), null=_null(field))
    failures += [(i, r) for i, r in wrong if i not in failed]
    batch = pa.RecordBatch.from_arrays([column], schema=result)
    return {"failures": failures, "done": len(values)}, [batch_blob(batch)]


class VectorCall:
    """Calls a vectorised function with columns as Arrow arrays. When it fails, bisects the batch
    down to the rows at fault."""

    def __init__(self, function: Any, arguments: pa.Schema, result: pa.Schema) -> None:
        self._function = function
        self._arguments = arguments
        self._result = result

    def __call__(self, header: Header, blobs: list[pa.Buffer], progress: memoryview) -> Answer:
        rows = row_count(header)
        columns = (
            list(read_batch(blobs[0], self._arguments).columns) if len(self._arguments) else []
        )
        parts: list[pa.Array] = []
        failures: list[Failure] = []
        waiting = [(0, rows)]
        while waiting:
            start, end = waiting.pop()
            progress[0], progress[1] = start, end
            try:
                parts.append(
                    self._call([c.slice(start, end - start) for c in columns], end - start)
                )
            except BaseException as error:  # noqa: BLE001  it is the user's code
                if end - start > 1:
                    middle = (start + end) // 2
                    waiting += [(middle, end), (start, middle)]
                    continue
                parts.append(pa.nulls(1, self._result.field(0).type))
                failures.append((start, reason_of(error)))
        column = pa.concat_arrays(parts) if parts else pa.nulls(0, self._result.field(0).type)
        if not _null(self._result.field(0)) and column.null_count:
            failures += self._missing(column, {i for i, _ in failures})
        batch = pa.RecordBatch.from_arrays([column], schema=self._result)
        return {"failures": failures, "done": rows}, [batch_blob(batch)]

    def _missing(self, column: pa.Array, known: set[int]) -> list[Failure]:
        reason = (
            f"the function gave None, and its result is {sql_name(self._result.field(0))} NOT NULL"
        )
        return [
            (i, reason)
            for i, v in enumerate(column.is_valid().to_pylist())
            if not v and i not in known
        ]

    def _call(self, columns: Sequence[pa.Array], rows: int) -> pa.Array:
        field = self._result.field(0)
        given = self._function(*columns)
        if isinstance(given, pa.ChunkedArray):
            given = given.combine_chunks()
        if isinstance(given, pa.Scalar):
            given = pa.repeat(given, rows)
        array = given if isinstance(given, pa.Array) else pa.array(given)
        if len(array) != rows:
            raise ValueError(f"the function gave {len(array)} values for {rows} rows")
        return array if array.type.equals(field.type) else array.cast(field.type)


class SinkCall:
    """Takes rows in their order, up to the first one that the function refuses."""

    def __init__(self, function: Any, arguments: pa.Schema, vectorized: bool) -> None:
        self._function = function
        self._arguments = arguments
        self._rows = None if vectorized else Arguments(function, arguments)

    def __call__(self, header: Header, blobs: list[pa.Buffer], progress: memoryview) -> Answer:
        count = row_count(header)
        if self._rows is None:
            progress[0], progress[1] = 0, count
            calls: list[Sequence[object]] = [read_batch(blobs[0], self._arguments).columns]
        else:
            calls = list(self._rows.rows(blobs[0], count))
        failures: list[Failure] = []
        for i, values in enumerate(calls):
            if self._rows is not None:
                progress[0] = i
            try:
                self._function(*values)
            except BaseException as error:  # noqa: BLE001  it is the user's code
                failures.append((i, reason_of(error)))
                break
        progress[0] = -1
        return {"failures": failures, "done": count}, []


def row_fields(value: object, names: Sequence[str]) -> Sequence[object]:
    """The values of a row that a function gave; a row of one column may be the value alone."""
    if type(value) is tuple and len(value) == len(names):
        return value
    if (
        len(names) == 1
        and not isinstance(value, (tuple, dict))
        and not hasattr(value, "__dataclass_fields__")
    ):
        return (value,)
    try:
        return list(row_values(value, names))
    except ValueError:
        raise ValueError(
            f"the function gave {repr(value)[:100]}, and its rows have {len(names)} columns"
        ) from None


class TableCall:
    """Any number of rows for each row. The answer has, before the function's columns, the number of
    the row."""

    def __init__(self, function: Any, arguments: pa.Schema, result: pa.Schema) -> None:
        self._function = function
        self._arguments = Arguments(function, arguments)
        self._result = result
        self._names = result.names[1:]

    def __call__(self, header: Header, blobs: list[pa.Buffer], progress: memoryview) -> Answer:
        origins: list[int] = []
        results: list[Sequence[object]] = []
        failures: list[Failure] = []
        done = 0
        for i, row in enumerate(self._arguments.rows(blobs[0], row_count(header))):
            progress[0] = i
            done = i + 1
            try:
                mine = [row_fields(v, self._names) for v in self._function(*row) or ()]
            except BaseException as error:  # noqa: BLE001  it is the user's code
                failures.append((i, reason_of(error)))
                if isinstance(error, MemoryError):
                    break
                continue
            origins += [i] * len(mine)
            results += mine
        progress[0] = -1
        return self.answer(origins, results, failures, done)

    def answer(
        self,
        origins: list[int],
        results: list[Sequence[object]],
        failures: list[Failure],
        done: int,
    ) -> Answer:
        columns = [pa.array(origins, pa.int32())]
        for i, field in enumerate(list(self._result)[1:]):
            values = [fields[i] for fields in results]
            column, wrong = to_column(values, field.type, sql_name(field), null=True)
            columns.append(column)
            failures += [(origins[at], reason) for at, reason in wrong]
        firsts = dict(reversed(failures))
        batch = pa.RecordBatch.from_arrays(columns, schema=self._result)
        return {"failures": sorted(firsts.items()), "done": done}, [batch_blob(batch)]


class AggregateCall:
    """Runs the steps of an aggregate.

    'update' and 'retract' add rows to accumulators and take them back, 'merge' merges two lists of
    accumulators pair by pair, 'value' returns a value for each. Accumulators travel as msgpack; a
    missing one is a new one."""

    def __init__(self, target: Any, arguments: pa.Schema, result: pa.Schema) -> None:
        self._aggregate = target()
        self._arguments = Arguments(target.accumulate, arguments, skip=2)
        self._result = result
        hint = hints_of(target.create_accumulator).get("return", Any)
        self._decoder = msgspec.msgpack.Decoder(hint)
        self._encoder = msgspec.msgpack.Encoder()

    def __call__(self, header: Header, blobs: list[pa.Buffer], progress: memoryview) -> Answer:
        match header["step"]:
            case "update" | "retract":
                return self._change(header, blobs, progress)
            case "merge":
                return self._merge(blobs, progress)
        return self._value(blobs, progress)

    def _read_states(self, blob: pa.Buffer) -> list[bytes | None]:
        states: list[bytes | None] = read_batch(blob, ACCUMULATORS).column(0).to_pylist()
        return states

    def _decode(self, data: bytes | None) -> Any:
        return self._aggregate.create_accumulator() if data is None else self._decoder.decode(data)

    def _change(self, header: Header, blobs: list[pa.Buffer], progress: memoryview) -> Answer:
        """Rows one by one; one that fails leaves its accumulator as it was before it."""
        change = (
            self._aggregate.accumulate if header["step"] == "update" else self._aggregate.retract
        )
        states = self._read_states(blobs[0])
        groups = read_batch(blobs[1], GROUPS).column(0).to_pylist()
        rows = list(self._arguments.rows(blobs[2], row_count(header)))
        now: dict[int, Any] = {}
        good: dict[int, list[int]] = {}
        failures: list[Failure] = []
        for i, (group, row) in enumerate(zip(groups, rows, strict=True)):
            progress[0] = i
            try:
                now[group] = _changed(
                    change, now[group] if group in now else self._decode(states[group]), row
                )
                good.setdefault(group, []).append(i)
            except BaseException as error:  # noqa: BLE001  it is the user's code
                failures.append((i, reason_of(error)))
                now[group] = self._decode(states[group])
                for earlier in good.get(group, ()):
                    now[group] = _changed(change, now[group], rows[earlier])
        progress[0] = -1
        encoded = [
            self._encoder.encode(now[g]) if g in now else states[g] for g in range(len(states))
        ]
        return {"failures": failures, "done": len(rows)}, [batch_blob(accumulators(encoded))]

    def _merge(self, blobs: list[pa.Buffer], progress: memoryview) -> Answer:
        merged: list[bytes | None] = []
        failures: list[Failure] = []
        for i, (left, right) in enumerate(
            zip(self._read_states(blobs[0]), self._read_states(blobs[1]), strict=True)
        ):
            progress[0] = i
            try:
                other = () if right is None else (self._decode(right),)
                merged.append(
                    left
                    if right is None
                    else self._encoder.encode(
                        _changed(self._aggregate.merge, self._decode(left), other)
                    )
                )
            except BaseException as error:  # noqa: BLE001  it is the user's code
                merged.append(left)
                failures.append((i, reason_of(error)))
        return {"failures": failures, "done": len(merged)}, [batch_blob(accumulators(merged))]

    def _value(self, blobs: list[pa.Buffer], progress: memoryview) -> Answer:
        values: list[object] = []
        failures: list[Failure] = []
        for i, data in enumerate(self._read_states(blobs[0])):
            progress[0] = i
            try:
                values.append(self._aggregate.get_value(self._decode(data)))
            except BaseException as error:  # noqa: BLE001  it is the user's code
                values.append(None)
                failures.append((i, reason_of(error)))
        progress[0] = -1
        field = self._result.field(0)
        column, wrong = to_column(values, field.type, sql_name(field), null=True)
        batch = pa.RecordBatch.from_arrays([column], schema=self._result)
        return {"failures": failures + wrong, "done": len(values)}, [batch_blob(batch)]


ACCUMULATORS = pa.schema([pa.field("accumulator", pa.binary())])
GROUPS = pa.schema([pa.field("group", pa.int32())])


def accumulators(encoded: Sequence[bytes | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(encoded, pa.binary())], schema=ACCUMULATORS)


def _changed(change: Callable[..., Any], accumulator: Any, row: tuple[Any, ...]) -> Any:
    """The accumulator after a method that changes it in place or gives another one."""
    given = change(accumulator, *row)
    return accumulator if given is None else given
