"""Reading the changes of a table: the snapshot once it is complete, then what comes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from parser.errors import ExecutionError
from planner.catalog import Table
from sqlengine.connectors.changes.positions import Mark
from sqlengine.connectors.changes.rows import ChangeRows
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.receivers.service import Wanted
from sqlengine.connectors.receivers.source import ReceivedSource

_STARTUP: Final = "scan.startup.mode"


class ChangesSource(ReceivedSource):
    """Reads the log of a table. Nothing is read of it before its snapshot is complete: what was
    taken of one that was broken off comes again with the next. `anew`: the option whose values have
    logs of their own."""

    def __init__(
        self,
        environment: Environment,
        table: Table,
        options: Mapping[str, object],
        wanted: Wanted,
        rows: ChangeRows,
        anew: str,
    ) -> None:
        self._changes = rows
        self._anew = anew
        self._whole = options[_STARTUP] != "latest-offset"
        self._name = table.display
        mode = "earliest-offset" if self._whole else "latest-offset"
        told = {**options, _STARTUP: mode, "scan.startup.timestamp-millis": None}
        super().__init__(environment, table, told, wanted, rows)

    def start(self, shard: str) -> int:
        """See `Source`. ExecutionError where the log has lost its beginning."""
        offset = super().start(shard)
        if self._whole and offset > 0:
            raise ExecutionError(
                f"table '{self._name}' cannot be read from its beginning on: what was received then"
                " is not kept any more",
                hint=f"give another '{self._anew}', which begins anew",
            )
        return offset

    def read(
        self, shard: str, offset: int, *, max_rows: int, until: int | None = None
    ) -> Chunk | None:
        """See `Source`."""
        if self._changes.snapshot is None and not self._find_snapshot():
            return None
        return super().read(shard, offset, max_rows=max_rows, until=until)

    def _find_snapshot(self) -> bool:
        """Looks whether the snapshot is complete, which all that comes behind it says."""
        end = self._broker.end_offset(self._topic, 0)
        if self._reading is not None:
            self._reading.moved(end)  # what waits for the rest must not hold it up
        if end <= self._broker.begin_offset(self._topic, 0):
            return False
        last = self._broker.read(self._topic, 0, end - 1, max_records=1)
        if last is None or last.keys is None:
            return False
        mark = Mark.decoded(last.keys.to_pylist()[-1])
        if mark.is_in_snapshot:
            return False
        self._changes.snapshot = mark.snapshot
        return True

    def link(self, folder: Path, rows: int) -> None:
        """See `Source`. Which rows count is known here alone."""
