"""Rows as messages of RFC 5424."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from parser.errors import OptionError
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.http.templates import Template, Values, as_text, text_template
from sqlengine.formats.registry import encoder_for, get_format

SEVERITIES: Final = (
    "emergency", "alert", "critical", "error", "warning", "notice", "informational", "debug",
)  # fmt: skip
_OTHER_NAMES: Final = {
    "emerg": 0, "panic": 0, "fatal": 0, "crit": 2, "err": 3, "high": 3, "warn": 4, "medium": 4,
    "low": 5, "info": 6,
}  # fmt: skip
FACILITIES: Final = (
    "kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv",
    "ftp", "ntp", "audit", "alert", "clock", "local0", "local1", "local2", "local3", "local4",
    "local5", "local6", "local7",
)  # fmt: skip
_ROW: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_HEADER: Final = re.compile(r"[^!-~]")  # what no field of a header may have
_ID: Final = re.compile(r'[^!-~]|[=\]" ]')
_ESCAPED: Final = re.compile(r'(["\\\]])')
# Fields of the header, with their longest values.
_LENGTHS: Final = {"hostname": 255, "app-name": 48, "proc-id": 128, "msg-id": 32}


class Messages:
    """Makes messages of the rows of one table. PlanError for templates that name no column."""

    def __init__(self, table: Table, options: Mapping[str, object]) -> None:
        names = table.physical.names
        self._columns = table.physical
        self._table = table

        def template(option: str) -> Template:
            return text_template(str(options[option] or ""), names, option)

        self._severity, self._facility = template("severity"), template("facility")
        self._fields = {name: template(name) for name in _LENGTHS}
        self._message = None if options["message"] is None else template("message")
        self._data = options["structured-data"]
        self._encoder = encoder_for(table)
        self._values = get_format("json").encoder(table.physical, {})
        self._host = _field(socket.gethostname(), _LENGTHS["hostname"])
        self._check()

    def _check(self) -> None:
        """Raises PlanError for a severity or facility that is none, where no column says it."""
        for option, template, number, known in (
            ("severity", self._severity, _severity, SEVERITIES),
            ("facility", self._facility, _facility, FACILITIES),
        ):
            if not template.columns and number(template.filled({})) is None:
                raise OptionError(
                    f"'{template.filled({})}' of table '{self._table.display}' is no {option}",
                    hint=f"one of {', '.join(known)}, or a number",
                    subject=option,
                )
        if self._data is not None and (_ID.search(str(self._data)) or len(str(self._data)) > 32):
            raise OptionError(
                f"'structured-data' of table '{self._table.display}' is no id of RFC 5424",
                hint="such as events@32473: at most 32 characters, without blanks, =, ] and quotes",
                subject="structured-data",
            )

    def encode(self, rows: Batch, now_ms: int) -> list[bytes]:
        """Returns a message for each row. SqlError, or what the format raises, where there is
        none."""
        own = rows.with_columns(self._columns, [rows.column(c.name) for c in self._columns])
        values = self._rows(own)
        bodies: Sequence[bytes]
        if self._message is None:
            bodies = self._encoder.encode(own).to_pylist()
        else:
            bodies = [self._message.filled(row).encode() for row in values]
        time = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds")
        stamp = time.replace("+00:00", "Z")
        return [self._one(row, body, stamp) for row, body in zip(values, bodies, strict=True)]

    def refused(self, rows: Batch, most: int | None) -> dict[int, str]:
        """Returns the rows that are no message, with the reasons: their severity or facility is
        none, or they are longer than `most` bytes (None: any may be)."""
        own = rows.with_columns(self._columns, [rows.column(c.name) for c in self._columns])
        found: dict[int, str] = {}
        if most is not None:
            sizes = map(len, self.encode(own, 0))
            found = {
                row: f"a message of {size} bytes, and UDP takes {most}"
                for row, size in enumerate(sizes)
                if size > most
            }
        if self._severity.columns or self._facility.columns:
            for row, values in enumerate(self._rows(own)):
                for template, number in ((self._severity, _severity), (self._facility, _facility)):
                    text = template.filled(values)
                    if number(text) is None:
                        found[row] = f"'{text[:100]}' is no severity, or no facility"
        return found

    def _rows(self, rows: Batch) -> list[dict[str, msgspec.Raw]]:
        return [_ROW.decode(line) for line in self._values.encode(rows).to_pylist()]

    def _one(self, row: Values, body: bytes, stamp: str) -> bytes:
        severity, facility = (
            _severity(self._severity.filled(row)),
            _facility(self._facility.filled(row)),
        )
        if severity is None or facility is None:  # these were set aside before
            severity, facility = severity or 5, facility or 1
        fields = {n: _field(t.filled(row), _LENGTHS[n]) for n, t in self._fields.items()}
        if not self._fields["hostname"].parts:
            fields["hostname"] = self._host
        head = (
            f"<{facility * 8 + severity}>1 {stamp} {fields['hostname']} {fields['app-name']}"
            f" {fields['proc-id']} {fields['msg-id']} {self._structured(row)} "
        )
        return head.encode() + body

    def _structured(self, row: Values) -> str:
        if self._data is None:
            return "-"
        parts = (
            f'{_ID.sub("_", name)[:32]}="{_ESCAPED.sub(_backslash, as_text(value))}"'
            for name, value in row.items()
            if bytes(value) != b"null"
        )
        return f"[{' '.join([str(self._data), *parts])}]"


def _backslash(found: re.Match[str]) -> str:
    return "\\" + found[1]


def _field(text: str, most: int) -> str:
    """Returns a field of the header; '-' stands for none."""
    return _HEADER.sub("_", text)[:most] or "-"


def _severity(text: str) -> int | None:
    return _number(text, SEVERITIES, _OTHER_NAMES)


def _facility(text: str) -> int | None:
    return _number(text, FACILITIES, {})


def _number(text: str, names: Sequence[str], others: Mapping[str, int]) -> int | None:
    lowered = text.strip().lower()
    if lowered in names:
        return names.index(lowered)
    if lowered in others:
        return others[lowered]
    return (
        int(lowered)
        if lowered.isascii() and lowered.isdigit() and int(lowered) < len(names)
        else None
    )
