"""Restart strategies: whether and when a job that failed is started again, with the names and the
defaults of Flink's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from parser.errors import OptionError
from planner.settings import duration_ms

RESTART: Final = "restart-strategy"
TYPE: Final = "restart-strategy.type"
_KINDS: Final = {
    "exponential-delay": "exponential-delay",
    "exponentialdelay": "exponential-delay",
    "fixed-delay": "fixed-delay",
    "fixeddelay": "fixed-delay",
    "failure-rate": "failure-rate",
    "failurerate": "failure-rate",
    "none": "none",
    "off": "none",
    "disable": "none",
}
FIXED: Final = "restart-strategy.fixed-delay."
RATE: Final = "restart-strategy.failure-rate."
EXPONENTIAL: Final = "restart-strategy.exponential-delay."
RESTART_SETTINGS: Final = (
    RESTART,
    TYPE,
    "restart-strategy.fixed-delay.attempts",
    "restart-strategy.fixed-delay.delay",
    "restart-strategy.failure-rate.max-failures-per-interval",
    "restart-strategy.failure-rate.failure-rate-interval",
    "restart-strategy.failure-rate.delay",
    "restart-strategy.exponential-delay.initial-backoff",
    "restart-strategy.exponential-delay.max-backoff",
    "restart-strategy.exponential-delay.backoff-multiplier",
    "restart-strategy.exponential-delay.reset-backoff-threshold",
    "restart-strategy.exponential-delay.jitter-factor",
    "restart-strategy.exponential-delay.attempts-before-reset-backoff",
)
_UNLIMITED: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Attempts:
    """The failures of a job so far. `count`: since it was submitted, started by hand, or ran for
    long enough; `times` (ms): the last ones, as far as the strategy looks back."""

    count: int = 0
    times: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RestartStrategy:
    """A restart strategy; durations in ms.

    `attempts`: the most restarts, of a fixed delay over all, of an exponential one before its
    backoff is reset; of a failure rate the most failures within `interval_ms`."""

    kind: str
    attempts: int
    delay_ms: int
    interval_ms: int = 0
    max_ms: int = 0
    multiplier: float = 1.0
    reset_ms: int = 0
    jitter: float = 0.0

    @property
    def is_endless(self) -> bool:
        """True if a job is started again however often it fails."""
        return self.kind == "exponential-delay" and self.attempts >= _UNLIMITED

    def failed(self, before: Attempts, now_ms: int, job: str) -> tuple[Attempts, int | None]:
        """Returns the attempts with a failure that comes now, and when the job is started again
        (ms); None if it is not."""
        if self.kind == "exponential-delay" and before.times:
            pause = self._backoff(before.count)
            if now_ms - before.times[-1] - pause >= self.reset_ms:
                before = Attempts()
        kept = self.attempts if self.kind == "failure-rate" else 1
        attempts = Attempts(before.count + 1, (*before.times, now_ms)[-max(kept, 1) - 1 :])
        if not self._restarts(attempts, now_ms):
            return attempts, None
        pause = self.delay_ms
        if self.kind == "exponential-delay":
            pause = self._with_jitter(self._backoff(attempts.count), job, attempts.count)
        return attempts, now_ms + pause

    def _restarts(self, attempts: Attempts, now_ms: int) -> bool:
        if self.kind == "failure-rate":
            recent = [t for t in attempts.times if now_ms - t <= self.interval_ms]
            return len(recent) <= self.attempts
        return self.kind != "none" and attempts.count <= self.attempts

    def _backoff(self, attempt: int) -> int:
        """Returns the pause before the attempt of this number, without its jitter."""
        # Beyond 64 attempts any multiplier above 1 has long come to the maximum.
        grown = self.delay_ms * self.multiplier ** min(attempt - 1, 512)
        return int(min(grown, self.max_ms))

    def _with_jitter(self, pause: int, job: str, attempt: int) -> int:
        """Returns the pause, longer or shorter by a part of it, so that jobs that failed together
        do not all come back at once. The part depends on the job and the attempt alone."""
        part = crc32(f"{job}#{attempt}".encode()) / 0xFFFFFFFF * 2 - 1
        return max(1, int(pause * (1 + self.jitter * part)))


def strategy_in(settings: Mapping[str, str]) -> RestartStrategy:
    """Returns the strategy that settings give, by default an exponential delay. OptionError for an
    impossible value."""
    text = settings.get(TYPE, settings.get(RESTART, "exponential-delay"))
    kind = _KINDS.get(text.strip().lower())
    if kind is None:
        raise OptionError(
            f"'{TYPE}' cannot be '{text}'",
            hint="it is 'exponential-delay', 'fixed-delay', 'failure-rate' or 'none'",
        )
    if kind == "fixed-delay":
        return RestartStrategy(
            kind,
            _count(settings, f"{FIXED}attempts", 1),
            duration_ms(settings, f"{FIXED}delay", 1_000),
        )
    if kind == "failure-rate":
        return RestartStrategy(
            kind,
            _count(settings, f"{RATE}max-failures-per-interval", 1),
            duration_ms(settings, f"{RATE}delay", 1_000),
            interval_ms=duration_ms(settings, f"{RATE}failure-rate-interval", 60_000),
        )
    return _exponential(settings) if kind == "exponential-delay" else RestartStrategy(kind, 0, 0)


def _exponential(settings: Mapping[str, str]) -> RestartStrategy:
    initial = duration_ms(settings, f"{EXPONENTIAL}initial-backoff", 1_000)
    most = duration_ms(settings, f"{EXPONENTIAL}max-backoff", 60_000)
    if not 0 < initial <= most:
        raise OptionError(
            f"'{EXPONENTIAL}initial-backoff' cannot be {initial} ms",
            hint=f"it is more than 0, and at most '{EXPONENTIAL}max-backoff', {most} ms",
        )
    return RestartStrategy(
        "exponential-delay",
        _count(settings, f"{EXPONENTIAL}attempts-before-reset-backoff", _UNLIMITED),
        initial,
        max_ms=most,
        multiplier=_number(settings, f"{EXPONENTIAL}backoff-multiplier", 1.5, 1.0, 1000.0),
        reset_ms=duration_ms(settings, f"{EXPONENTIAL}reset-backoff-threshold", 3_600_000),
        jitter=_number(settings, f"{EXPONENTIAL}jitter-factor", 0.1, 0.0, 1.0),
    )


def _count(settings: Mapping[str, str], key: str, default: int) -> int:
    text = settings.get(key, str(default)).strip().lower()
    if text == "infinite":
        return _UNLIMITED
    if not (text.isascii() and text.isdigit()):
        raise OptionError(
            f"'{key}' cannot be '{settings[key]}'", hint="it is a whole number, or 'infinite'"
        )
    return int(text)


def _number(
    settings: Mapping[str, str], key: str, default: float, least: float, most: float
) -> float:
    try:
        number = float(settings.get(key, default))
    except ValueError:
        number = -1.0
    if not least <= number <= most:
        raise OptionError(
            f"'{key}' cannot be '{settings[key]}'", hint=f"it is a number from {least} to {most}"
        )
    return number
