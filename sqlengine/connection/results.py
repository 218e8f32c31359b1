"""The result of a statement, which is read while its rows come."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NoReturn, Self, cast

import pyarrow as pa

from parser.errors import ServiceError, SqlError
from sqlengine.connection.html import SHOWN, as_pre, as_table
from sqlengine.connection.pages import ArrowPage, Pages
from sqlengine.connection.progress import Progress
from sqlengine.connection.rows import Row, RowMaker

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from sqlengine.connection.jobs import Job, Jobs

# Seconds between two calls of a `progress` function.
_TOLD_S: Final = 0.5
# Seconds for which a notebook waits for rows to show.
_AHEAD_S: Final = 1.0


class Result:
    """The rows of a statement while they come, once: each of its ways to read goes on where the
    one before has stopped.

    Iterate over rows (`for`, `async for`), `dicts()` or `batches()`; `to_arrow()`, `to_pandas()`
    and `to_polars()` read all that are left. It ends with its last row, or when it is closed, by
    any thread; an error of the statement is raised behind the rows before it. While nobody reads,
    the statement waits. A context manager: leaving it ends the statement.
    """

    def __init__(
        self,
        pages: Pages,
        told: Callable[[Progress], object] | None = None,
        jobs: Jobs | None = None,
    ) -> None:
        self._jobs = jobs
        self._pages = pages
        self._told, self._told_at = told, 0.0
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._closed, self._over = threading.Event(), False
        self._waiting: deque[pa.RecordBatch] = deque()
        self._schema = pa.schema([])
        self._about: Mapping[str, object] = {}
        self._batch: pa.RecordBatch | None = None
        self._rows: list[Row] = []
        self._at = self._given = 0
        self._maker: RowMaker | None = None
        try:
            while not (self._over or self._waiting or self._about.get("columns")):
                self._turn()
        except BaseException:  # Ctrl-C while an INSERT runs
            self.close()
            raise

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.types.items())
        return f"Result({columns or self.message})"

    # ---- what it is ------------------------------------------------------------------------------

    @property
    def schema(self) -> pa.Schema:
        """The columns. Where rows may be updated or deleted, the first one is `op`: +I, -U, +U or
        -D. The SQL type of a field is in its metadata under `sql`."""
        return self._schema

    @property
    def types(self) -> dict[str, str]:
        """The SQL types of the columns by name."""
        columns = self._about.get("columns") or []
        assert isinstance(columns, list)
        return dict(columns)

    @property
    def changes(self) -> bool:
        """True if rows may be updated or deleted."""
        return self._about.get("changes") is True

    @property
    def message(self) -> str | None:
        """The answer of a statement without rows, 'OK'."""
        text = self._about.get("message")
        return text if isinstance(text, str) else None

    @property
    def rows_written(self) -> int | None:
        """The rows that an INSERT has written; None for all others, and for one that is a job."""
        rows = self._about.get("rows_written")
        return rows if isinstance(rows, int) else None

    @property
    def job(self) -> Job | None:
        """The job that an INSERT has become, which goes on by itself; None for all others."""
        name = self._about.get("job")
        return self._jobs[name] if isinstance(name, str) and self._jobs is not None else None

    @property
    def progress(self) -> Progress:
        """The progress of the statement, as of the last rows."""
        seconds = time.monotonic() - self._began
        return Progress.of(self._about, self._given + self._at, seconds)

    # ---- rows ------------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Row:
        if self._at == len(self._rows) and not self._fill():
            raise StopIteration
        self._at += 1
        return self._rows[self._at - 1]

    async def __aiter__(self) -> AsyncIterator[Row]:
        """Iterates over rows; other tasks run while none are there. A task that is cancelled
        ends the statement."""
        try:
            while self._at < len(self._rows) or await asyncio.to_thread(self._fill):
                self._at += 1
                yield self._rows[self._at - 1]
        except asyncio.CancelledError:
            self.close()
            raise

    def dicts(self) -> Iterator[dict[str, object]]:
        """Iterates over rows as dicts by the names of columns."""
        for batch in self.batches():
            yield from self.dicts_of(batch)

    def dicts_of(self, batch: pa.RecordBatch) -> Iterator[dict[str, object]]:
        """Yields the rows of one of the batches as dicts."""
        columns = self._row_maker().columns(batch)
        for values in zip(*columns, strict=True):
            yield dict(zip(self._schema.names, values, strict=True))

    # ---- columns ---------------------------------------------------------------------------------

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Iterates over Arrow record batches, as they come."""
        if (rest := self._rest()) is not None:
            yield rest
        while (batch := self._next_batch()) is not None:
            self._given += batch.num_rows
            yield batch

    def to_arrow(self) -> pa.Table:
        """Returns all rows that are left as an Arrow table."""
        with self:
            return pa.Table.from_batches(list(self.batches()), self._schema)

    def to_pandas(self) -> pd.DataFrame:
        """Returns all rows that are left as a DataFrame of pandas. Whole numbers and BOOLEANs have
        its types with NULL (Int64, boolean), DECIMALs are Decimals."""
        try:
            import pandas as pd
        except ImportError:
            _missing("pandas", "pandas>=2.2")
        kinds = {pa.bool_(): pd.BooleanDtype()}
        kinds |= {getattr(pa, f"int{n}")(): getattr(pd, f"Int{n}Dtype")() for n in (8, 16, 32, 64)}
        return self.to_arrow().to_pandas(types_mapper=kinds.get)

    def to_polars(self) -> pl.DataFrame:
        """Returns all rows that are left as a DataFrame of Polars."""
        try:
            import polars as pl
        except ImportError:
            _missing("polars", "polars")
        return cast("pl.DataFrame", pl.from_arrow(self.to_arrow()))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Gives the rows that are left, while they come, to all that know Arrow's PyCapsules."""
        reader = pa.RecordBatchReader.from_batches(self._schema, self.batches())
        capsule: object = reader.__arrow_c_stream__(requested_schema)
        return capsule

    def _repr_html_(self) -> str:
        """Shows the first rows, or those that come within a second; they are there to be read all
        the same."""
        if self.message is not None:
            return as_pre(self.message)
        rows, until = self._ahead(), time.monotonic() + _AHEAD_S
        while (
            len(rows) <= SHOWN
            and not (self._over or self._closed.is_set())
            and time.monotonic() < until
        ):
            self._turn()
            rows = self._ahead()
        names = self._schema.names
        if names == ["result"]:  # a plan, a CREATE TABLE
            return "".join(as_pre(str(row["result"])) for row in rows)
        more = "" if len(rows) <= SHOWN and self._over else "more rows follow"
        return as_table(names, [list(row.values()) for row in rows[:SHOWN]], more)

    def _ahead(self) -> list[dict[str, object]]:
        """Returns some of the rows that have come and are not read, more than are shown if there
        are."""
        rest = [] if self._batch is None else [self._batch.slice(self._at)]
        found: list[dict[str, object]] = []
        for batch in (*rest, *self._waiting):
            found += self.dicts_of(batch.slice(0, SHOWN + 1 - len(found)))
            if len(found) > SHOWN:
                break
        return found

    # ---- its end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends the statement, and with it all who iterate. Any thread, also twice."""
        with self._lock:
            was_closed = self._closed.is_set()
            self._closed.set()
        if not (was_closed or self._over):
            self._pages.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(Exception):  # also where `__init__` has failed, or Python ends
            self.close()

    # ---- private ---------------------------------------------------------------------------------

    def _fill(self) -> bool:
        """Waits for the next rows; False behind the last."""
        batch = self._next_batch()
        self._given += self._at
        self._batch, self._at = batch, 0
        self._rows = [] if batch is None else self._row_maker().rows(batch)
        return batch is not None

    def _row_maker(self) -> RowMaker:
        if self._maker is None:
            self._maker = RowMaker(self._schema, changes=self.changes)
        return self._maker

    def _rest(self) -> pa.RecordBatch | None:
        """Returns what rows have left of their batch."""
        if self._batch is None or self._at == len(self._rows):
            return None
        rest = self._batch.slice(self._at)
        self._given += len(self._rows)
        self._batch, self._rows, self._at = None, [], 0
        return rest

    def _next_batch(self) -> pa.RecordBatch | None:
        while not self._waiting:
            if self._over or self._closed.is_set():
                return None
            try:
                self._turn()
            except SqlError:
                if self._closed.is_set():  # meanwhile: there is no such query any more
                    return None
                self.close()
                raise
            except BaseException:  # Ctrl-C
                self.close()
                raise
        return self._waiting.popleft()

    def _turn(self) -> None:
        page: ArrowPage = self._pages.turn()
        self._about = page.about
        if page.about["columns"]:
            self._schema = page.schema
        self._waiting += [b for b in page.batches if b.num_rows]
        self._over = page.last
        now = time.monotonic()
        if self._told is not None and (self._over or now - self._told_at >= _TOLD_S):
            self._told_at = now
            self._told(self.progress)
        if self._over:
            self._warn()

    def _warn(self) -> None:
        """Says what was left out, and what had no effect."""
        known = self._about.get("warnings")
        for text in known if isinstance(known, list) else []:
            warnings.warn(str(text), stacklevel=5)
        if aside := self._about.get("set_aside"):
            first = self._about.get("first_error")
            rows = "1 row in error is" if aside == 1 else f"{aside} rows in error are"
            warnings.warn(f"{rows} left out; the first: {first}", stacklevel=5)


def _missing(name: str, requirement: str) -> NoReturn:
    raise ServiceError(
        f"to_{name}() needs {name}, which is not installed",
        hint=f"pip install '{requirement}', or use to_arrow()",
    ) from None
