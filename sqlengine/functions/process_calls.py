"""The calls of a process function in a worker: rows and timers in their order."""

from __future__ import annotations

import gc
import heapq
from bisect import bisect_left
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from sqlengine.functions.calls import Answer, row_fields, sql_name
from sqlengine.functions.convert import Failure, to_column, to_values
from sqlengine.functions.hints import fields_of
from sqlengine.functions.process_context import CallContext
from sqlengine.functions.process_hints import hints_of_eval, row_hint, state_class, takes_context
from sqlengine.functions.process_keys import (
    Due,
    Key,
    Memory,
)
from sqlengine.functions.process_views import Question, Views, nobody, view_fields
from sqlengine.functions.process_wire import (
    INSTANTS,
    KEYS_AFTER,
    LOST_TIMERS,
    TABLE,
    Shape,
    shape_of,
)
from sqlengine.functions.protocol import Header, batch_blob, read_batch
from sqlengine.functions.reasons import reason_of

MAX_WATERMARK = 2**63 - 1
LOST = "it was due together with a timer that cost the worker its life, and is dropped"


class ProcessCall:
    """Calls `eval` and `on_timer` for the events of a request (`process_wire`)."""

    def __init__(
        self, target: Any, rows: pa.Schema, scalars: pa.Schema, keys: pa.Schema, result: pa.Schema
    ) -> None:
        instance = target()
        self._eval: Callable[..., Iterable[object] | None] = instance.eval
        self._on_timer = getattr(instance, "on_timer", None)
        self._takes_context = takes_context(target)
        self._state = state_class(target)
        self._views = view_fields(self._state)
        self.question: Question = nobody
        self._hints = hints_of_eval(target)
        self._schemas = (rows, scalars, keys)
        self._result = result
        self._names = result.names[4:]
        self._shape: Shape = shape_of(rows)
        self._makers = [self._maker(name, columns) for name, columns in self._shape.tables]

    def _maker(
        self, name: str, columns: Sequence[tuple[str, str]]
    ) -> tuple[list[str], list[object], Callable[[Sequence[object]], object]]:
        """The columns of a table in a request, their hints, and what makes a row of them."""
        of = row_hint(self._hints[name])
        known = dict(fields_of(of)) if of is not None else {}
        hints = [known.get(column) for _, column in columns]
        if isinstance(of, type):
            return [a for a, _ in columns], hints, lambda values: of(*values)
        made = namedtuple("Row", [c for _, c in columns], rename=True)  # type: ignore[misc]  # noqa: PYI024
        return [a for a, _ in columns], hints, made._make

    def __call__(self, header: Header, blobs: list[pa.Buffer], progress: memoryview) -> Answer:
        gc.disable()  # it would look at all rows of the request, again and again
        try:
            request = _Request(self, header, blobs)
            return request.answer(request.run(progress))
        finally:
            gc.enable()

    def rows(self, batch: pa.RecordBatch) -> list[tuple[object, ...]]:
        """The arguments of `eval` for each row: one for each table, None for those that it is not
        of."""
        made = []
        for names, hints, make in self._makers:
            columns = [to_values(batch.column(n), h) for n, h in zip(names, hints, strict=True)]
            made.append((list(zip(*columns, strict=True)) or [()] * batch.num_rows, make))
        if len(made) == 1:
            values, make = made[0]
            return [(make(v),) for v in values]
        tables = batch.column(TABLE).to_pylist()
        return [
            tuple(make(values[i]) if n == at else None for n, (values, make) in enumerate(made))
            for i, at in enumerate(tables)
        ]

    def scalars(self, batch: pa.RecordBatch) -> dict[str, object]:
        values = zip(batch.schema.names, batch.columns, strict=True)
        return {name: to_values(column, self._hints.get(name))[0] for name, column in values}


class _Request:
    """One request: its events, and what comes of them."""

    def __init__(self, call: ProcessCall, header: Header, blobs: list[pa.Buffer]) -> None:
        rows, scalars, keys = call._schemas
        self._call = call
        first, count = header["first"], header["rows"]
        assert isinstance(first, int)
        assert isinstance(count, int)
        self._first, self._end = first, first + count
        batch = read_batch(blobs[0], rows)
        self._groups: list[int] = batch.column(0).to_pylist()
        self._times: list[int | None] = batch.column(1).to_pylist()
        self._rows = call.rows(batch)
        self._scalars = call.scalars(read_batch(blobs[1], scalars)) if len(scalars) else {}
        self._key_batch = read_batch(blobs[2], keys)
        self._watermarks: list[int] = read_batch(blobs[3], INSTANTS).column(0).to_pylist()
        self._steps: list[int] = read_batch(blobs[4], INSTANTS).column(0).to_pylist()
        self._views = Views(call._views, call.question)
        self._memory = Memory(call._state, self._views)
        self._context = CallContext(self._memory, call._shape.zoned)
        self._context._keys = self._key_values
        self._eval: Callable[..., Iterable[object] | None] = partial(
            call._eval, *((self._context,) if call._takes_context else ()), **self._scalars
        )
        self._at = int(str(header["watermark"]))
        self._remembers = call._state is not None or call._on_timer is not None
        # Of each row that is given: the row that it comes from, its key, its time, the watermark.
        self._origins: list[tuple[int, int, int | None, int]] = []
        self._outputs: list[Sequence[object]] = []
        self._failures: list[Failure] = []
        self._lost_timers: list[tuple[int, int, str | None, str]] = []
        self._load()

    def _load(self) -> None:
        states, timers, nexts = (self._key_batch.column(i).to_pylist() for i in range(3))
        self._keys = [
            Key((state, known), first, number)
            for number, (state, known, first) in enumerate(zip(states, timers, nexts, strict=True))
        ]
        for number, key in enumerate(self._keys):
            if key.first is not None and key.first <= self._watermarks[-1]:
                self._memory.file(number, key)

    def _key_values(self, number: int) -> tuple[object, ...]:
        columns = self._key_batch.columns[3:]
        return tuple(to_values(c.slice(number, 1), None)[0] for c in columns)

    # ---- events ----------------------------------------------------------------------------------

    def run(self, progress: memoryview) -> int:
        """The number of events that were done: less than all where memory was short."""
        self._progress = progress
        if self._first % 2:  # the event before it was lost
            self._advance(self._watermarks[0], drop=True)
        base, count = self._first // 2, len(self._rows)
        for event in range(self._first, self._end):
            progress[0] = event - self._first
            at = event // 2 - base
            try:
                if event % 2:
                    if at < count:
                        self._row(event, at)
                else:
                    self._advance(self._watermarks[at])
            except MemoryError:
                return event - self._first + 1
        progress[0] = -1
        return self._end - self._first

    def _row(self, event: int, at: int) -> None:
        number, time = self._groups[at], self._times[at]
        what = (None, self._rows[at], time, self._at)
        failed = self._do(number, what, at + self._first // 2, self._at)
        if failed is not None:
            self._failures.append((event - self._first, failed[0]))
            if failed[1]:
                raise MemoryError

    def _advance(self, watermark: int, *, drop: bool = False) -> None:
        """Brings the watermark, step by step as it came, and fires the timers that are due: those
        without a name before those with one, as Flink does."""
        while self._memory.first_due() <= watermark and self._at < watermark:
            place = bisect_left(self._steps, max(self._memory.first_due(), self._at + 1))
            step, before = self._steps[place], self._steps[place - 1]
            self._at = step
            if step == MAX_WATERMARK:
                self._fire_last(before, drop=drop)
            for due in self._memory.due:
                while due and due[0][0] <= step:
                    self._fire(heapq.heappop(due), step, before, drop=drop)
        self._at = max(self._at, watermark)

    def _fire_last(self, before: int, *, drop: bool) -> None:
        """Fires what is left at the end of all input, and the timers that are set then, each name
        of a key once: one that sets itself again would never end."""
        unnamed, named = self._memory.due
        known, fired = sorted(unnamed), set[tuple[int, str]]()
        unnamed.clear()
        for entry in known:
            self._fire(entry, MAX_WATERMARK, before, drop=drop)
        while named:
            entry = heapq.heappop(named)
            if (entry[1], entry[2]) not in fired and self._is_set(entry):
                fired.add((entry[1], entry[2]))
                self._fire(entry, MAX_WATERMARK, before, drop=drop)
        unnamed.clear()

    def _is_set(self, entry: Due) -> bool:
        time, number, _, timer = entry
        return self._memory.timers_of(self._keys[number]).get(timer) == time

    def _fire(self, entry: Due, step: int, before: int, *, drop: bool) -> None:
        if not self._is_set(entry):
            return
        time, number, name, timer = entry
        key = self._keys[number]
        self._progress[2] += 1  # the time that a row may take is that of a timer
        del self._memory.timers_of(key)[timer]
        shown = name if isinstance(timer, str) else None
        if drop:
            self._lost_timers.append((number, time, shown, LOST))
            return
        failed = self._do(number, (timer, shown, time, step), -1, before)
        if failed is not None:
            self._memory.timers_of(key).pop(timer, None)
            self._lost_timers.append((number, time, shown, failed[0]))
            if failed[1]:
                raise MemoryError

    def _do(
        self, number: int, event: tuple[Any, ...], row: int, watermark: int
    ) -> tuple[str, bool] | None:
        """Why an event failed, and whether memory was short: its key is then as before it."""
        key, outputs, names = self._keys[number], self._outputs, self._call._names
        before = len(outputs)
        try:
            for value in self._call_for(number, key, event):
                outputs.append(row_fields(value, names))
        except BaseException as error:  # noqa: BLE001  it is the user's code
            del outputs[before:]
            self._repeat(number, key)
            return reason_of(error), isinstance(error, MemoryError)
        for _ in range(len(outputs) - before):
            self._origins.append((row, number, event[2], watermark))
        if self._remembers:
            key.events.append(event)
        return None

    def _call_for(self, number: int, key: Key, event: tuple[Any, ...]) -> Iterable[object]:
        context = self._context
        timer, what, context._ms, context._watermark_ms = event
        context._number, context._key = number, key
        if timer is None:
            return self._eval(*what) or ()
        assert self._call._on_timer is not None
        return self._call._on_timer(self._context, what) or ()

    def _repeat(self, number: int, key: Key) -> None:
        """Does what went well so far once more, for what the key remembers of it."""
        self._memory.reset(key)
        for event in key.events:
            if event[0] is not None:
                self._memory.timers_of(key).pop(event[0], None)
            for _ in self._call_for(number, key, event):
                pass

    # ---- the answer ------------------------------------------------------------------------------

    def answer(self, done: int) -> Answer:
        fields = list(self._call._result)
        origins = list(zip(*self._origins, strict=True)) or [()] * 4
        columns = [pa.array(o, field.type) for o, field in zip(origins, fields, strict=False)]
        given = list(zip(*self._outputs, strict=True)) or [()] * len(fields[4:])
        for values, field in zip(map(list, given), fields[4:], strict=True):
            column, wrong = to_column(values, field.type, sql_name(field), null=True)
            columns.append(column)
            for at, reason in wrong:
                self._wrong(at, reason)
        output = pa.RecordBatch.from_arrays(columns, schema=self._call._result)
        firsts = dict(reversed(self._failures))
        blobs = (output, self._memories(), self._lost(), self._views.changes())
        return {"failures": sorted(firsts.items()), "done": done}, [batch_blob(b) for b in blobs]

    def _wrong(self, at: int, reason: str) -> None:
        """A row that is not of the declared type: what it was given for is in error."""
        row, number, time, _ = self._origins[at]
        if row < 0:
            self._lost_timers.append((number, time or 0, None, reason))
        else:
            self._failures.append((2 * row + 1 - self._first, reason))

    def _memories(self) -> pa.RecordBatch:
        encoded = [self._memory.encoded(key) for key in self._keys]
        columns = [pa.array([e[i] for e in encoded], f.type) for i, f in enumerate(KEYS_AFTER)]
        return pa.RecordBatch.from_arrays(columns, schema=KEYS_AFTER)

    def _lost(self) -> pa.RecordBatch:
        columns = [
            pa.array([t[i] for t in self._lost_timers], f.type) for i, f in enumerate(LOST_TIMERS)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=LOST_TIMERS)
