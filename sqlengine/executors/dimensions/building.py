"""Builds the content of a version: reads a table to its end and writes its rows as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from xxhash import xxh3_128

from parser.errors import PlanError
from planner.catalog import Table
from planner.logical import LogicalPlan, Scan
from planner.rewrite import transform
from sqlengine.batch import Batch
from sqlengine.connectors.boundary.openings import Openings
from sqlengine.connectors.boundary.source import WalledSource
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.registry import open_scan
from sqlengine.dimensions.columns import ColumnWriter
from sqlengine.dimensions.versions import Letter, VersionInfo
from sqlengine.executors.sources import RunningSource
from sqlengine.operators.base import ERROR_PORT, Output
from sqlengine.operators.joins.row_steps import RowStep, row_steps

_ROWS: Final = 1 << 15
_BYTES: Final = 1 << 20
# Rows that are not in a version, and that people get to see.
_MOST_LETTERS: Final = 1_000


class ContentBuilder:
    """Builds content of `table` with the plan over it. One thread at a time.

    `proceed` is called between two pieces of the work; what it raises ends the work."""

    def __init__(
        self,
        plan: LogicalPlan,
        table: Table,
        environment: Environment,
        proceed: Callable[[], None],
        *,
        any_times: bool,
    ) -> None:
        def read_once(node: LogicalPlan) -> LogicalPlan:
            return Scan(table, node.where) if isinstance(node, Scan) else node

        self._plan = transform(plan, read_once)
        # Connectors are called in the thread that builds, behind the boundary.
        openings = Openings(None, environment.openings.timeout_s, environment.openings.command)
        self._environment = replace(environment, openings=openings)
        self._proceed = proceed
        self._any_times = any_times

    def open_table(self) -> WalledSource:
        """Opens the table. SqlError where it cannot be opened, or has no end."""
        source = open_scan(self._scan, self._environment)
        assert isinstance(source, WalledSource)
        if not source.bounded:
            source.close()
            raise PlanError(
                f"table '{self._scan.table.display}' has no end, and cannot be held as a whole",
                hint="leave out the options 'lookup…': then rows are looked up in what it has read",
            )
        return source

    @property
    def _scan(self) -> Scan:
        plan = self._plan
        while plan.inputs:
            (plan,) = plan.inputs
        assert isinstance(plan, Scan)
        return plan

    def write(self, folder: Path, stamp: str) -> VersionInfo:
        """Writes the content to an empty folder. SqlError and OSError where the table cannot be
        read."""
        letters: list[Letter] = []
        failed = 0
        writer = ColumnWriter(folder, self._plan.schema)
        try:
            with closing(self.open_table()) as source:
                for port, batch in self._rows(source):
                    if port == ERROR_PORT:
                        failed += batch.num_rows
                        letters += _letters(batch, _MOST_LETTERS - len(letters))
                    elif batch.num_rows:
                        writer.add(batch.columns, batch.num_rows)
        except BaseException:
            writer.discard()
            raise
        writer.finish(self._proceed)
        digest = _digest(folder, self._proceed)
        return VersionInfo(writer.num_rows, stamp, digest, letters, failed)

    def _rows(self, source: WalledSource) -> Iterator[tuple[int, Batch]]:
        running = RunningSource(self._scan, source)
        steps = row_steps(self._plan, any_times=self._any_times)
        now = self._environment.clock()
        running.begin()
        # Not `end`, which never fails: a table would be empty.
        ends = {shard: source.required_end(shard) or 0 for shard in running.positions}
        for shard, offset in running.positions.items():
            while offset < ends[shard]:
                self._proceed()
                # Not `until` there: that would be read in one piece.
                chunk = source.read(shard, offset, max_rows=_ROWS)
                if chunk is None:
                    break
                offset = chunk.end
                yield from _through(steps, [(0, running.batch(chunk, now, 0))])


def _through(steps: Iterable[RowStep], output: Output) -> Output:
    for step in steps:
        done: Output = []
        for port, batch in output:
            done += [(port, batch)] if port == ERROR_PORT else step.process(0, batch)
        output = done
    return output


def _letters(batch: Batch, most: int) -> Iterator[Letter]:
    columns = [batch.column(n).slice(0, max(most, 0)) for n in Letter.__struct_fields__]
    for values in zip(*(c.to_pylist() for c in columns), strict=True):
        yield Letter(*(v or "" for v in values))


def _digest(folder: Path, proceed: Callable[[], None]) -> str:
    digest = xxh3_128()
    for path in sorted(folder.iterdir()):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            while data := file.read(_BYTES):
                digest.update(data)
                proceed()
    return digest.hexdigest()
