"""The file of alerts that `sql backtest --out` writes: lines of JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, TYPE_CHECKING, Self

from parser.errors import ServiceError

if TYPE_CHECKING:
    from sqlengine.batch import Batch


class AlertsFile:
    """Writes alerts as they come, each with its rule, its table, its time and its kind, where it is
    no addition. ServiceError where it cannot."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._file = self._path.open("w", encoding="utf-8")
        except OSError as error:
            raise self._refused(error) from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def take(self, rule: str, table: str, rows: Batch) -> None:
        """Writes the alerts of a rule."""
        from sqlengine.trial.events import text_of
        from sqlengine.trial.past.alerts import alerts_of

        if self._file is None:
            return
        lines = []
        for kind, time, row in alerts_of(rows):
            at = {} if time is None else {"time": text_of(time)}
            change = {} if kind.short == "+I" else {"kind": kind.short}
            line = {"rule": rule, "table": table, **at, **change, "alert": row}
            lines.append(json.dumps(line, ensure_ascii=False) + "\n")
        try:
            self._file.writelines(lines)
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> ServiceError:
        return ServiceError(f"'{self._path}' cannot be written", detail=error.strerror)
