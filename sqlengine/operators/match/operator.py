"""MATCH_RECOGNIZE: feeds the rows of each key, in order of time, to the automaton of the
pattern."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from parser.types import BIGINT, BYTES, Column, Schema
from planner.logical import MatchRecognize
from sqlengine.batch import MAX_WATERMARK, Batch, empty
from sqlengine.operators.base import ERROR_PORT, Context, Output, Stream
from sqlengine.operators.dead_letters import dead_letters
from sqlengine.operators.firing_steps import FiringSteps
from sqlengine.operators.late_rows import BEHIND, LateGate
from sqlengine.operators.match.conditions import python_values
from sqlengine.operators.match.heap import Part
from sqlengine.operators.match.output import NO_ROW, Matches, handle_of, slot_of
from sqlengine.operators.match.row_tests import Tests
from sqlengine.operators.match.rows import RowStore
from sqlengine.operators.match.runs import Matcher, Run, load
from sqlengine.operators.ranks.ordering import codes
from sqlengine.state.columns import IntArray, milliseconds
from sqlengine.state.table import KeyedTable

_RUN, _DEADLINE = "#run", "#deadline"


class MatchOperator:
    """Matches a row pattern, as Flink's CepOperator.

    On row time, rows wait until the watermark has passed them; one behind the watermark is late and
    dropped (`late_rows`). On processing time they are processed at once. Matches are emitted in the
    order of the watermarks that complete them; those of one watermark by the time of the completing
    row, then by key.

    A row for which a condition fails leaves by the error port, and is not taken by the variable; so
    does the first row of a match that cannot skip as declared, and the match is dropped.

    State: table `keys`, partition -> `#run` (partial matches) and `#deadline` (ms); the tables of
    `RowStore`. Timers: the row time of waiting rows, and `#deadline` with WITHIN.
    """

    def __init__(self, node: MatchRecognize) -> None:
        self._node = node
        self._late = LateGate(node, reason=BEHIND)
        self._schema = Schema(tuple(c for c in node.input.schema if c.name in node.columns))
        self._time = node.order[0].column
        self._by_event = node.by_event
        self._matcher = Matcher(node, self._emit, self._reject)
        self._tests = Tests(node, self._matcher.starts(), self._fail)
        self.steps = FiringSteps(proctime=not self._by_event)

    def open(self, context: Context) -> None:
        self._counters = context.counters
        self._check_step = context.check_step
        self._late.open(context)
        partition = self._node.partition
        keys = self._schema.select(partition) if partition else Schema((Column("#one", BIGINT),))
        values = Schema((Column(_RUN, BYTES), Column(_DEADLINE, BIGINT)))
        self._keys: KeyedTable = context.table("keys", keys, values, partition)
        self._store = RowStore(context, self._schema, partition, self._time, self._by_event)
        self._runs: dict[int, Run] = {}
        self._generation = self._keys.generation
        self._deadlines = [(self._keys, _DEADLINE)] if self._matcher.within else []
        if self._by_event:
            self.steps.open(self._store.timers(), *self._deadlines)

    def close(self) -> None: ...

    def process(self, port: int, batch: Batch) -> Stream:
        if self._generation != self._keys.generation:
            self._runs.clear()
            self._generation = self._keys.generation
        if not self._by_event:
            return self._advance(batch, batch.watermark)
        batch = self.steps.begin(batch)
        *others, fired = self._advance(batch, self._room(batch))
        rows = [fired] if fired[1].num_rows else []
        return self.steps.close([*others, *rows], batch, self._node.schema)

    def _room(self, batch: Batch) -> int:
        """Returns the watermark (ms) up to which the step processes rows and deadlines."""
        most = self.steps.most
        times = [self._store.due_times(batch, most)]
        for table, column in self._deadlines:
            due = table.due(column, batch.watermark, most)
            times.append(table.columns[column][due].astype(np.int64))
        return self.steps.room(np.sort(np.concatenate(times)), batch.watermark)

    def _advance(self, batch: Batch, watermark: int) -> Output:
        """Processes what is due at the watermark, that of the batch or an earlier one."""
        output: Output = []
        rows, late = self._store.take_due(batch, watermark)
        self._late.drop(batch, late, output)
        self._matches = Matches(self._node, self._store)
        self._pool = empty(self._schema)
        self._unneeded: list[int] = []
        self._unused_keys: list[int] = []  # new keys without a partial match
        self._set_ticks(batch, watermark)
        touched: dict[int, Run] = {}
        if rows.num_rows:
            self._feed(batch, rows, touched)
        self._expire_idle_keys(touched)
        result = (0, self._matches.result(batch, self._pool))
        # Before the rows are saved: it reads rejected rows by handles that `_save` makes invalid.
        letters = self._letters(batch)
        self._save(touched)
        return [*output, *([(ERROR_PORT, letters)] if letters is not None else []), result]

    # ---- time ------------------------------------------------------------------------------------

    def _set_ticks(self, batch: Batch, watermark: int) -> None:
        """Sets the ticks of the batch: the watermarks up to `watermark` (or the clock) that it
        brings, ascending, in ms."""
        if not self._by_event:
            self._ticks: IntArray = np.array([batch.proctime])
        elif batch.row_watermarks is None:
            self._ticks = np.array([batch.watermark])
        else:
            self._ticks = np.maximum.accumulate(
                np.append(batch.row_watermarks[1:], batch.watermark)
            )
        if self._by_event and batch.steps is not None:
            # Steps are watermarks between rows, which fire deadlines without a row.
            self._ticks = np.union1d(self._ticks, batch.steps[batch.steps < batch.watermark])
        if watermark < batch.watermark:
            self._ticks = np.append(self._ticks[self._ticks < watermark], watermark)

    def _expire(self, run: Run, time: int) -> None:
        """Advances the time of one key to `time`."""
        deadline = self._matcher.deadline(run)
        if deadline is not None and deadline <= time:
            self._matcher.expire(run, time, None if time == MAX_WATERMARK else time)

    def _fire_timers(self, run: Run, upto: int) -> None:
        """Fires the deadlines of a run at ticks before the tick number `upto`."""
        while (deadline := self._matcher.deadline(run)) is not None:
            # The first watermark at or past the deadline: it fires there, and not earlier.
            tick = int(np.searchsorted(self._ticks, deadline))
            if tick >= upto:
                return
            self._matches.set_time(tick, deadline)
            self._expire(run, int(self._ticks[tick]))

    def _expire_idle_keys(self, touched: dict[int, Run]) -> None:
        """Fires the deadlines of keys without rows in this batch."""
        if not self._matcher.within:
            return
        for slot in self._keys.due(_DEADLINE, int(self._ticks[-1])).tolist():
            if slot not in touched:
                touched[slot] = run = self._run(slot)
                self._fire_timers(run, len(self._ticks))

    # ---- rows ------------------------------------------------------------------------------------

    def _feed(self, batch: Batch, rows: Batch, touched: dict[int, Run]) -> None:
        """Feeds the rows that are due; adds the runs of their keys to `touched`."""
        slots = self._slots(rows)
        times = (
            milliseconds(rows.column(self._time))[0]
            if self._by_event
            else np.full(rows.num_rows, batch.proctime)
        )
        # The first order column is the time, which sorts by itself.
        by = [codes(k, rows.column(k.column)) for k in self._node.order[1:]]
        index: IntArray = np.lexsort([*reversed(by), times, slots])
        self._pool = rows.take(index)
        slots, times = slots[index], times[index]
        self._tests.load(self._pool)
        self._times: list[int] = times.tolist()
        self._ticked: list[int] = np.searchsorted(self._ticks, times).tolist()
        feed = self._feed_timed if self._matcher.within else self._feed_plain
        bounds = [0, *(np.flatnonzero(np.diff(slots)) + 1).tolist(), len(slots)]
        stored_runs = self._keys.columns[_RUN]
        for low, high, slot in zip(bounds, bounds[1:], slots[bounds[:-1]].tolist(), strict=False):
            # Most keys of a selective pattern never begin a match: their rows are skipped without
            # loading a run.
            if stored_runs[slot] is None and self._tests.next_start(low) >= high:
                self._unused_keys.append(slot)
                continue
            touched[slot] = run = self._run(slot)
            feed(run, low, high)

    def _slots(self, rows: Batch) -> IntArray:
        keys = [rows.column(k) for k in self._node.partition]
        if not keys:
            keys = [pa.array(np.zeros(rows.num_rows, np.int64))]
        return self._keys.slots_for(keys, rows.num_rows)[0]

    def _feed_plain(self, run: Run, low: int, high: int) -> None:
        row = low
        while row < high:
            if run.idle:
                # An idle run waits for a row that begins a match: all rows before it are skipped at
                # once.
                row = self._tests.next_start(row)
                if row >= high:
                    return
            self._feed_row(run, row)
            row += 1

    def _feed_timed(self, run: Run, low: int, high: int) -> None:
        """Feeds rows with WITHIN: deadlines fire before each new time of rows, and at each tick of
        the watermark."""
        last = -1
        for row in range(low, high):
            tick, time = self._ticked[row], self._times[row]
            if tick != last:
                if last >= 0:
                    self._expire(run, int(self._ticks[last]))
                self._fire_timers(run, tick)
                last = tick
            self._matches.set_time(tick, time)
            self._expire(run, time)
            if not run.idle or self._tests.next_start(row) == row:
                self._feed_row(run, row)
        self._expire(run, int(self._ticks[last]))
        self._fire_timers(run, len(self._ticks))

    def _feed_row(self, run: Run, row: int) -> None:
        # A pattern may have more partial matches with each row.
        self._check_step()
        run.rows.append(row)
        run.values.append(self._tests.values(row))
        self._tests.select(run, row)
        self._matches.set_time(self._ticked[row], self._times[row])
        self._matcher.feed(run, self._times[row], row, self._tests)
        if run.idle:
            self._unneeded += run.drop_unneeded()

    # ---- what is found ---------------------------------------------------------------------------

    def _emit(self, run: Run, part: Part, time: int) -> None:
        self._matches.add(run, part, time)

    def _reject(self, run: Run, part: Part, reason: str) -> None:
        self._matches.reject(run.rows[part[0] - run.base], "AFTER MATCH SKIP", reason)

    def _fail(self, row: int, item: int, reason: str) -> None:
        self._matches.reject(row, f"DEFINE {self._node.pattern[item].variable}", reason)

    def _letters(self, batch: Batch) -> Batch | None:
        refused = self._matches.rejected(batch, self._pool)
        if refused is None:
            return None
        rows, subjects, reasons = refused
        self._counters["rows_in_error"] += rows.num_rows
        place = "" if self._node.position is None else str(self._node.position)
        return dead_letters(rows, place=[place] * rows.num_rows, subject=subjects, reason=reasons)

    # ---- state -----------------------------------------------------------------------------------

    def _run(self, slot: int) -> Run:
        run = self._runs.get(slot)
        if run is None:
            run = self._runs[slot] = self._load(slot)
        return run

    def _load(self, slot: int) -> Run:
        data = self._keys.columns[_RUN][slot]
        if not isinstance(data, bytes):
            return self._matcher.begin()
        run, count = load(data)
        key = self._keys.key_arrays(np.array([slot])) if self._node.partition else []
        slots = self._store.find(key, run.base, count)
        run.rows = [handle_of(s) for s in slots.tolist()]
        names = self._tests.columns
        values = [python_values(self._schema.type(n), self._store.array(n, slots)) for n in names]
        run.values = list(zip(*values, strict=True)) if names else [()] * count
        return run

    def _save(self, touched: dict[int, Run]) -> None:
        """Writes the touched runs and their rows to the state; removes idle keys."""
        self._save_rows(touched.values())
        idle = [slot for slot, run in touched.items() if run.idle]
        for slot in idle:
            del self._runs[slot]
        # `slots_for` made them, although their rows begin no match.
        idle += self._unused_keys
        active = [slot for slot in touched if slot in self._runs]
        if active:
            self._write(np.array(active), [touched[s] for s in active])
        self._keys.remove(np.array(idle, np.int64))

    def _save_rows(self, runs: Iterable[Run]) -> None:
        """Removes stored rows that no match needs, and stores new rows that matches need."""
        fresh: list[tuple[Run, int]] = []
        for run in runs:
            self._unneeded += run.drop_unneeded()
            # Rows of this batch that a partial match still needs; older ones are stored already.
            fresh += [(run, place) for place, handle in enumerate(run.rows) if handle > NO_ROW]
        self._store.remove([slot_of(h) for h in self._unneeded if h < NO_ROW])
        if not fresh:
            return
        rows = self._pool.take(np.array([run.rows[place] for run, place in fresh]))
        numbers = np.array([run.base + place for run, place in fresh])
        slots = self._store.add(rows, numbers).tolist()
        for (run, place), slot in zip(fresh, slots, strict=True):
            run.rows[place] = handle_of(slot)

    def _write(self, slots: IntArray, runs: list[Run]) -> None:
        deadlines = [self._matcher.deadline(r) if self._matcher.within else None for r in runs]
        columns = {
            _RUN: pa.array([r.dump() for r in runs], pa.binary()),
            _DEADLINE: pa.array(deadlines, pa.int64()),
        }
        self._keys.write(slots, columns)
        self._keys.mark(slots)
