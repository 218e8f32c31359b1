"""Writes what came of cases into their files, as what is expected (`sql test --update`)."""

from __future__ import annotations

import json
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence

from sqlengine.trial.cases import CaseFile, Expected
from sqlengine.trial.events import Row
from sqlengine.trial.testing import Outcome


def record(file: CaseFile, outcomes: Sequence[Outcome]) -> bool:
    """Writes the rows that came where others were expected, or none were named. True if the file
    has changed.

    Only `alerts` is written anew, and of columns those that some row there named; all of them
    where none did. A number stays a number. Lines end as the file's first one does."""
    text = file.text
    for outcome in reversed(outcomes):
        if outcome.error is None and (outcome.differences or outcome.case.alerts is None):
            text = _replaced(text, outcome)
    if text == file.text:
        return False
    mark = BOM_UTF8 if file.path.read_bytes().startswith(BOM_UTF8) else b""
    file.path.write_bytes(mark + text.encode())
    return True


def _replaced(text: str, outcome: Outcome) -> str:
    span = outcome.case.span
    alerts = _shown(outcome.case.alerts, outcome.came)
    written = _flow(alerts) if span.flow else _block(alerts, span.indent)
    before, after = text[: span.begin], text[span.end :]
    new = span.begin == span.end
    lead = "" if not new else ", " if span.flow else "\n" + " " * span.indent
    end = "\r\n" if "\r\n" in text else "\n"
    return before + f"{lead}alerts:{written}".replace("\n", end) + after


def _shown(
    expected: Expected, came: Mapping[str, Sequence[Row]]
) -> Mapping[str, Sequence[Row] | int] | Sequence[Row] | int:
    """The value of `alerts`, in the form that it had."""
    if isinstance(expected, Mapping) or len(came) != 1:
        given = expected if isinstance(expected, Mapping) else {}
        return {table: _rows(given.get(table), rows) for table, rows in came.items()}
    return _rows(expected, next(iter(came.values())))


def _rows(expected: Sequence[Row] | int | None, came: Sequence[Row]) -> Sequence[Row] | int:
    if isinstance(expected, int):
        return len(came)
    names = {name for row in expected or () for name in row}
    return [{n: v for n, v in row.items() if not names or n in names} for row in came]


def _flow(alerts: object) -> str:
    return " " + json.dumps(alerts, ensure_ascii=False)


def _block(alerts: object, indent: int) -> str:
    """Lines, with one for each row."""
    begin = "\n" + " " * (indent + 2)
    if isinstance(alerts, Mapping):
        return "".join(f"{begin}{name}:{_block(rows, indent + 2)}" for name, rows in alerts.items())
    if isinstance(alerts, list) and alerts:
        return "".join(f"{begin}-{_flow(row)}" for row in alerts)
    return _flow(alerts)
