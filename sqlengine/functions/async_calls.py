"""The calls of functions that wait: many rows at once, in one event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Sequence
from typing import Any, Final

import pyarrow as pa

from sqlengine.functions.calls import (
    Answer,
    Arguments,
    TableCall,
    row_count,
    row_fields,
    scalar_answer,
)
from sqlengine.functions.convert import Failure
from sqlengine.functions.protocol import Header
from sqlengine.functions.reasons import reason_of
from sqlengine.functions.sdk import AsyncDeclaration

# Clients of the user's module live in one loop, from batch to batch.
_LOOP: Final = asyncio.new_event_loop()
# Seconds after which no further row is begun: the others are asked for with another request.
_BEGIN_S: Final = 5.0
# Seconds between two signs of life.
_PULSE_S: Final = 0.05


class _Rows:
    """The rows of a request: their values in order, whichever comes first."""

    def __init__(
        self, function: Any, declared: AsyncDeclaration, rows: Sequence[tuple[Any, ...]]
    ) -> None:
        self._function, self._declared, self._rows = function, declared, rows
        self.values: list[Any] = [None] * len(rows)
        self.failures: list[Failure] = []
        self._begun = 0
        self._over = [False] * len(rows)

    async def run(self, progress: memoryview) -> int:
        """The number of rows that were done, from the first one."""
        until = time.monotonic() + _BEGIN_S
        pulse = asyncio.create_task(self._pulse(progress))
        try:
            workers = min(self._declared.concurrency, len(self._rows))
            await asyncio.gather(*(self._work(until) for _ in range(workers)))
        finally:
            pulse.cancel()
        return self._begun

    async def _work(self, until: float) -> None:
        while self._begun < len(self._rows) and time.monotonic() < until:
            row = self._begun
            self._begun += 1
            try:
                self.values[row] = await self._called(self._rows[row])
            except BaseException as error:  # noqa: BLE001  it is the user's code
                self.failures.append((row, self._reason(error)))
            self._over[row] = True

    async def _called(self, arguments: tuple[Any, ...]) -> object:
        delay = self._declared.retry_delay_s
        for left in reversed(range(self._declared.retries + 1)):
            try:
                return await asyncio.wait_for(self._function(*arguments), self._declared.timeout_s)
            except Exception:
                if not left:
                    raise
            await asyncio.sleep(delay)
            delay *= 2
        raise AssertionError

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, TimeoutError) and not str(error):
            return f"it took longer than {self._declared.timeout_s:g} s (timeout_s)"
        return reason_of(error)

    async def _pulse(self, progress: memoryview) -> None:
        """Says that the loop lives, and which rows are at work."""
        while True:
            first = next((i for i in range(self._begun) if not self._over[i]), -1)
            progress[0], progress[1] = first, self._begun
            progress[2] += 1
            await asyncio.sleep(_PULSE_S)


def _finished(work: Coroutine[Any, Any, int]) -> int:
    return _LOOP.run_until_complete(work)


class AsyncScalarCall:
    """A value for each row."""

    def __init__(
        self, function: Any, declared: AsyncDeclaration, arguments: pa.Schema, result: pa.Schema
    ) -> None:
        self._function, self._declared = function, declared
        self._arguments = Arguments(function, arguments)
        self._result = result

    def __call__(self, header: Header, blobs: list[pa.Buffer], progress: memoryview) -> Answer:
        given = list(self._arguments.rows(blobs[0], row_count(header)))
        rows = _Rows(self._function, self._declared, given)
        done = _finished(rows.run(progress))
        answer, parts = scalar_answer(rows.values[:done], sorted(rows.failures), self._result)
        return {**answer, "more": True}, parts


class AsyncTableCall:
    """Any number of rows for each row."""

    def __init__(
        self, function: Any, declared: AsyncDeclaration, arguments: pa.Schema, result: pa.Schema
    ) -> None:
        self._function, self._declared = function, declared
        self._arguments = Arguments(function, arguments)
        self._table = TableCall(function, arguments, result)
        self._names = result.names[1:]

    def __call__(self, header: Header, blobs: list[pa.Buffer], progress: memoryview) -> Answer:
        given = list(self._arguments.rows(blobs[0], row_count(header)))
        rows = _Rows(self._function, self._declared, given)
        done = _finished(rows.run(progress))
        origins: list[int] = []
        results: list[Sequence[object]] = []
        for row, values in enumerate(rows.values[:done]):
            try:
                mine = [row_fields(value, self._names) for value in values or ()]
            except (TypeError, ValueError) as error:
                rows.failures.append((row, reason_of(error)))
                continue
            origins += [row] * len(mine)
            results += mine
        answer, parts = self._table.answer(origins, results, sorted(rows.failures), done)
        return {**answer, "more": True}, parts
