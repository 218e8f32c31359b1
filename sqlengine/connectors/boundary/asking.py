"""Asking tables for the last epoch that they have of a writer, beside each other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from parser.errors import SqlError
from sqlengine.connectors.base import Sink
from sqlengine.connectors.boundary.sink import WalledSink

# Seconds that all of them have together.
_ASK_S: Final = 10.0


@dataclass(frozen=True)
class LastEpochs:
    """What sinks have told, by their ids: `known`, 0 where there is no epoch, and the `errors` of
    those that cannot tell now."""

    known: Mapping[str, int]
    errors: Mapping[str, SqlError]


def last_epochs(sinks: Mapping[str, Sink]) -> LastEpochs:
    """Asks sinks, and waits a bounded time for all of them. Never raises SqlError."""
    known: dict[str, int] = {}
    errors: dict[str, SqlError] = {}
    until = time.monotonic() + _ASK_S
    walled = {name: sink for name, sink in sinks.items() if isinstance(sink, WalledSink)}
    for name, sink in walled.items():
        try:
            sink.ask()
        except SqlError as error:
            errors[name] = error
    for name in [n for n in sinks if n not in errors]:
        try:
            known[name] = _answer(sinks[name], max(until - time.monotonic(), 0.0)) or 0
        except SqlError as error:
            errors[name] = error
    return LastEpochs(known, errors)


def _answer(sink: Sink, wait_s: float) -> int | None:
    return sink.answer(wait_s) if isinstance(sink, WalledSink) else sink.last_epoch()
