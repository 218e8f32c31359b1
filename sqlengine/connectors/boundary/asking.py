"""Asking tables for the last epoch that they have of a writer, beside each other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from parser.errors import SqlError
from sqlengine.connectors.base import Sink
from sqlengine.connectors.boundary.sink import WalledSink

# Seconds that all of them have together.
_ASK_S: Final = 10.0
# So many tables are asked, or opened, at the same time.
AT_ONCE: Final = 32


@dataclass(frozen=True)
class LastEpochs:
    """The last epochs of sinks by their ids: `known`, 0 where there is none, and the `errors` of
    those that cannot tell now."""

    known: Mapping[str, int]
    errors: Mapping[str, SqlError]


def last_epochs(sinks: Mapping[str, Sink]) -> LastEpochs:
    """Asks sinks, and waits a bounded time for all of them. Never raises SqlError."""
    known: dict[str, int] = {}
    errors: dict[str, SqlError] = {}
    until, names = time.monotonic() + _ASK_S, list(sinks)
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        for sink in map(sinks.__getitem__, some):
            if isinstance(sink, WalledSink):
                with suppress(SqlError):  # the answer says so
                    sink.ask()
        for name in some:
            try:
                known[name] = _answer(sinks[name], max(until - time.monotonic(), 0.0)) or 0
            except SqlError as error:
                errors[name] = error
    return LastEpochs(known, errors)


def _answer(sink: Sink, wait_s: float) -> int | None:
    return sink.answer(wait_s) if isinstance(sink, WalledSink) else sink.last_epoch()
