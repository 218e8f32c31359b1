"""Asks tables that rows are looked up in for the rows of keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from parser.errors import OptionError, SqlError
from parser.types import Column, Schema
from planner.logical import AskedScan, LogicalPlan, Scan
from planner.rewrite import transform
from planner.settings import CACHE_OPTION, MISS_ATTEMPTS, MISS_DELAY, PARTIAL
from sqlengine.batch import Batch, IntArray
from sqlengine.connectors.boundary.calls import ConnectorSilent
from sqlengine.connectors.boundary.lookup import WalledLookup
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.lookup_options import (
    AFTER_ACCESS,
    AFTER_WRITE,
    KEEPS_MISSING,
    MOST_ROWS,
    RETRIES,
)
from sqlengine.connectors.registry import open_lookup, options_of
from sqlengine.connectors.row_lookup import Found
from sqlengine.executors.dimensions.answer_cache import AnswerCache, Keeping
from sqlengine.executors.sources import ChunkRows
from sqlengine.formats.base import OutOfReach
from sqlengine.operators.base import ERROR_PORT, Output
from sqlengine.operators.joins.asked import Answered, Questions
from sqlengine.operators.joins.row_steps import RowStep, row_steps
from sqlengine.state.keys import encode

# Keys of one question, which a connector divides among its connections.
_KEYS: Final = 4_000
# Seconds before a table is asked again after an error; twice as long each time.
_FIRST_PAUSE_S: Final = 0.1
_LOOK_S: Final = 0.02
# Seconds that a step may wait for rows which a table does not have.
_MOST_MISSING_S: Final = 30


class TableAsker:
    """Asks one table for the rows of keys, and keeps answers where its options say so. One thread.

    It connects when it is first asked, and anew after an error."""

    def __init__(self, scan: AskedScan, environment: Environment) -> None:
        assert scan.rows is not None
        options = options_of(scan.table)
        retries = options[RETRIES]
        assert isinstance(retries, int)
        self._scan, self._retries = scan, retries
        self._miss_attempts, self._miss_delay_s = _miss(scan, options)
        self._rows = _FoundRows(scan, environment)
        self._environment = environment
        self._lookup = self._opened()
        self._cache: AnswerCache | None = None
        if options[CACHE_OPTION] == PARTIAL:
            self._cache = AnswerCache(scan.rows.schema, _keeping(options), environment.clock)

    def _opened(self) -> WalledLookup:
        assert self._scan.rows is not None
        return open_lookup(_scan_of(self._scan.rows), self._scan.columns, self._environment)

    def check(self) -> None:
        """Connects, to see whether the table can be asked. SqlError where it cannot."""
        try:
            self._lookup.open(lambda: None)
        finally:
            self.close()

    def rows_of(self, questions: Questions, proceed: Callable[[], None]) -> Answered:
        """Returns all rows of distinct keys, in the order of the keys. OutOfReach where the table
        cannot be asked, or what `proceed` raises, which is called while an answer is awaited."""
        if self._cache is None:
            return self._asked(questions, proceed)
        known = [self._cache.get(key) for key in questions.keys]
        # Before anything is put into the cache, which may take the place of what it has now.
        kept = self._kept(self._cache, known)
        missing = np.array([i for i, slots in enumerate(known) if slots is None], np.int64)
        if not len(missing):
            return kept
        asked = questions.take(missing)
        found = self._asked(asked, proceed)
        self._keep(self._cache, asked, found)
        return kept.joined(found.renumbered(missing))

    def _keep(self, cache: AnswerCache, asked: Questions, found: Answered) -> None:
        of = found.of
        if found.problems:
            known = found.answered(len(asked.keys))
            asked, of = asked.take(known), np.searchsorted(known, of)
        cache.put(asked.keys, found.columns, of)

    def _kept(self, cache: AnswerCache, known: Sequence[IntArray | None]) -> Answered:
        """Returns the rows in these slots, for each key."""
        parts = [(i, slots) for i, slots in enumerate(known) if slots is not None and len(slots)]
        if not parts:
            return Answered.empty(self._rows.schema)
        of = np.repeat([i for i, _ in parts], [len(slots) for _, slots in parts])
        return Answered(cache.columns(np.concatenate([slots for _, slots in parts])), of)

    def _asked(self, questions: Questions, proceed: Callable[[], None]) -> Answered:
        found = self._found(questions, proceed)
        asked = len(questions.keys)
        for _ in range(self._miss_attempts):
            missed = np.setdiff1d(found.answered(len(questions.keys)), found.of)
            if not len(missed):
                break
            _pause(self._miss_delay_s, proceed)
            again = self._found(questions.take(missed), proceed)
            # A row that is none comes with each answer.
            letters = () if found.letters else again.letters
            found = found.joined(replace(again, letters=letters).renumbered(missed))
            asked += len(missed)
        return replace(found, asked=asked)

    def _found(self, questions: Questions, proceed: Callable[[], None]) -> Answered:
        whole = Answered.empty(self._rows.schema)
        for start in range(0, len(questions.keys), _KEYS):
            part = questions.take(np.arange(start, min(start + _KEYS, len(questions.keys))))
            answer = self._rows.answer(self._ask(part, proceed), part)
            whole = whole.joined(answer.renumbered(np.arange(start, start + len(part.keys))))
        return whole

    def _ask(self, questions: Questions, proceed: Callable[[], None]) -> Sequence[Found]:
        for attempt in range(self._retries + 1):
            try:
                return self._lookup.rows_of(questions.columns, proceed)
            except SqlError as error:
                self._lookup.close()
                self._lookup = self._opened()
                if attempt == self._retries or isinstance(error, ConnectorSilent):
                    raise self._out_of_reach(error) from None
            _pause(_FIRST_PAUSE_S * 2**attempt, proceed)
        raise AssertionError("unreachable")

    def _out_of_reach(self, error: SqlError) -> OutOfReach:
        detail = error.message if error.detail is None else f"{error.message}: {error.detail}"
        return OutOfReach(
            f"table '{self._scan.table.display}' cannot be asked for rows",
            detail=detail,
            hint=error.hint,
        )

    def close(self) -> None:
        """Closes the connection."""
        self._lookup.close()
        self._lookup = self._opened()


class _FoundRows:
    """Makes of what a connector has found the rows of the plan over the table."""

    def __init__(self, scan: AskedScan, environment: Environment) -> None:
        assert scan.rows is not None
        self.schema = scan.rows.schema
        self._clock, self._columns = environment.clock, scan.columns
        self._key = [(self.schema.index(k), self.schema.type(k)) for k in scan.keys]
        any_times = environment.any_times
        below = _scan_of(scan.rows)
        self._matched = ChunkRows(below), row_steps(scan.rows, any_times=any_times)
        # Rows that say of themselves for which key they are need not have its columns.
        lenient = transform(scan.rows, lambda n: _lenient(n, scan.columns))
        self._given = (
            ChunkRows(_scan_of(lenient)),
            row_steps(lenient, any_times=any_times),
        )

    def answer(self, found: Sequence[Found], questions: Questions) -> Answered:
        """Returns the rows for these keys, in their order."""
        numbers = {key: i for i, key in enumerate(questions.keys)}
        whole = Answered.empty(self.schema)
        problems = {f.key: f.problem for f in found if f.key is not None and f.problem}
        for part in found:
            letters: list[Batch] = []
            rows = list(self._rows(part, questions, letters))
            for batch in rows:
                columns, of = list(batch.columns), self._of(batch, part.key, numbers)
                if (of < 0).any():
                    kept = np.flatnonzero(of >= 0)
                    columns, of = [c.take(pa.array(kept)) for c in columns], of[kept]
                whole = whole.joined(Answered(columns, of, ()))
            whole = replace(whole, letters=(*whole.letters, *letters))
        return replace(whole, problems=problems)

    def _rows(self, found: Found, questions: Questions, letters: list[Batch]) -> Iterator[Batch]:
        filled = found.key is not None and not found.has_key
        chunks, steps = self._given if filled else self._matched
        output: Output = [(0, chunks.batch(found.chunk, self._clock(), 0))]
        for number, step in enumerate(steps):
            output = list(_through(step, output, letters))
            if not number and filled:
                assert found.key is not None
                output = [(0, self._filled(b, found.key, questions)) for _, b in output]
        yield from (batch for _, batch in output if batch.num_rows)

    def _filled(self, batch: Batch, key: int, questions: Questions) -> Batch:
        """Returns the rows with the columns that were asked by as they were asked."""
        columns = list(batch.columns)
        for name, values in zip(self._columns, questions.columns, strict=True):
            asked = values.take(pa.array(np.full(batch.num_rows, key)))
            columns[batch.schema.index(name)] = asked
        return batch.with_columns(batch.schema, columns)

    def _of(self, batch: Batch, key: int | None, numbers: dict[bytes, int]) -> IntArray:
        """Returns the number of each row's key; -1 for a row that nobody has asked for."""
        if key is not None:
            return np.full(batch.num_rows, key)
        columns = [batch.columns[i] for i, _ in self._key]
        keys = encode([kind for _, kind in self._key], columns, batch.num_rows)
        return np.array([numbers.get(k, -1) for k in keys], np.int64)


def _through(step: RowStep, output: Output, letters: list[Batch]) -> Iterator[tuple[int, Batch]]:
    for _, batch in output:
        for port, made in step.process(0, batch):
            if port == ERROR_PORT:
                letters.append(made)
            else:
                yield port, made


def _lenient(node: LogicalPlan, columns: Sequence[str]) -> LogicalPlan:
    """Returns a scan whose columns of these names may be NULL."""
    if not isinstance(node, Scan):
        return node
    physical = Schema(
        tuple(
            Column(c.name, c.type.with_nullable(True)) if c.name in columns else c
            for c in node.table.physical
        )
    )
    return replace(node, table=replace(node.table, physical=physical))


def _scan_of(plan: LogicalPlan) -> Scan:
    while not isinstance(plan, Scan):
        (plan,) = plan.inputs
    return plan


def _keeping(options: dict[str, object]) -> Keeping:
    rows, written, used = options[MOST_ROWS], options[AFTER_WRITE], options[AFTER_ACCESS]
    assert isinstance(rows, int)
    assert written is None or isinstance(written, int)
    assert used is None or isinstance(used, int)
    return Keeping(rows, written, used, bool(options[KEEPS_MISSING]))


def _miss(scan: AskedScan, options: dict[str, object]) -> tuple[int, float]:
    """Returns how often keys without rows are asked for again, and after how many s. OptionError
    where that takes too long."""
    attempts, delay_ms = options[MISS_ATTEMPTS], options[MISS_DELAY]
    assert isinstance(attempts, int)
    assert isinstance(delay_ms, int)
    if attempts * delay_ms > _MOST_MISSING_S * 1000:
        raise OptionError(
            f"table '{scan.table.display}' would be asked again for {attempts * delay_ms / 1000:g}"
            f" s where it has no row: {attempts} times, each after {delay_ms / 1000:g} s",
            detail=f"the job's other rows wait as long, so that {_MOST_MISSING_S} s are the most",
            hint="let it be asked less often, or sooner",
        )
    return attempts, delay_ms / 1000


def _pause(seconds: float, proceed: Callable[[], None]) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        proceed()
        time.sleep(min(left, _LOOK_S))
