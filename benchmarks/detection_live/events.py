"""The events of the detection, and the alerts that are due: an event is a function of its number."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks import sigma
from benchmarks.copies import STRIDE
from benchmarks.rules_real import one_pass
from tests.conformance.sigma import Rule, read_alerts

_ID = re.compile(rb'^\{"_id": ?(\d+)')


@dataclass(frozen=True)
class Events:
    """The log again and again, under new ids each time; its texts are those of some `copies`, one
    after the other. `alerts`: the rules that find something, by the number of an event in all
    copies."""

    copies: Sequence[Sequence[bytes]]
    alerts: Mapping[int, Sequence[str]]

    def record(self, number: int) -> bytes:
        """Returns the JSON of an event."""
        round_, line = self._line(number)
        return _ID.sub(b'{"_id":%d' % (_id_of(line) % STRIDE + round_ * STRIDE), line, count=1)

    def id(self, number: int) -> int:
        round_, line = self._line(number)
        return _id_of(line) % STRIDE + round_ * STRIDE

    def due(self, number: int) -> Sequence[str]:
        """Returns the rules that must find an event."""
        return self.alerts.get(_id_of(self._line(number)[1]), ())

    def _line(self, number: int) -> tuple[int, bytes]:
        round_, index = divmod(number, len(self.copies[0]))
        return round_, self.copies[round_ % len(self.copies)][index]


def undisturbed(rules: Sequence[Rule], copies: int) -> Events:
    """Makes copies, and runs the rules over them by themselves: no connectors, no kills."""
    found: dict[int, list[str]] = {}
    with sigma.engine(wanted=rules) as engine:
        one_pass(engine, list(range(copies)))
        for rule, event in read_alerts(engine):
            found.setdefault(int(event), []).append(rule)
    return Events([sigma.lines(n) for n in range(copies)], found)


def _id_of(line: bytes) -> int:
    found = _ID.match(line)
    assert found is not None, f"an event without an id in front: {line[:80]!r}"
    return int(found[1])
