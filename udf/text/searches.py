"""Search with Java's patterns, one value at a time: in linear time by RE2 where it can, else with a
timeout and a time budget.

A backtracking pattern may take for ever on one value, or a little too long on each of thousands.
Both would delay the whole stream, so such a pattern is given up for a while: values that are
skipped get an error."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from parser.errors import SqlError, UnsupportedError
from udf.arrays.arrays import RowError
from udf.java.regex import JavaRegex, translate

T = TypeVar("T")

TIMEOUT_S = 0.1
# A text on which quadratic time is no matter: watching the time costs more than the search.
_SHORT = 2_000
# This share of the time limit is enough where RE2 is there to decide.
_SPARED = 0.1
# What a search may take on average, in CPU seconds.
_ALLOWED_S = 0.0002
# So many searches are left out when a pattern is given up for the first time; each time twice as
# many as before.
_PAUSE, _LONGEST_PAUSE = 1_000, 1_000_000


@dataclass
class TimeBudget:
    """The CPU time budget of one pattern.

    Each search adds an allowance and spends what it takes. The budget is exhausted when the pattern
    is `most_overdue` seconds over it. The clock never decides what an answer is, only that there is
    none."""

    most_overdue: float = 0.3
    overdue: float = 0.0

    @property
    def is_exhausted(self) -> bool:
        return self.overdue > self.most_overdue

    def run(self, search: Callable[[], T]) -> T:
        """Runs `search` and counts its CPU time."""
        begin = time.thread_time()
        try:
            return search()
        finally:
            self.overdue = max(0.0, self.overdue + time.thread_time() - begin - _ALLOWED_S)


@dataclass
class _PatternRecord:
    """The state of one pattern. `skipped`: searches still to skip before it is tried again. `slow`:
    RE2 is used where it can be."""

    budget: TimeBudget
    pause: int = _PAUSE
    skipped: int = 0
    slow: bool = False

    def search(self, pattern: str, search: Callable[[], T]) -> T:
        if self.skipped > 0:
            self.skipped -= 1
            raise RowError(
                f"regular expression '{pattern}' was given up for a while: it takes too long"
            )
        try:
            return self.budget.run(search)
        finally:
            if self.budget.is_exhausted:
                self.skipped, self.pause = self.pause, min(2 * self.pause, _LONGEST_PAUSE)
                self.budget = TimeBudget()


@lru_cache(maxsize=4096)
def _record(pattern: str) -> _PatternRecord:
    return _PatternRecord(TimeBudget())


@lru_cache(maxsize=4096)
def _known(pattern: str) -> JavaRegex | UnsupportedError | None:
    try:
        return translate(pattern)
    except UnsupportedError as error:
        return error
    except SqlError:
        return None


def known(pattern: str) -> JavaRegex | None:
    """The translated pattern; None where Java refuses it. RowError for what Java has and this
    version has not."""
    translated = _known(pattern)
    if isinstance(translated, UnsupportedError):
        raise RowError(translated.message)
    return translated


def searched(pattern: JavaRegex, text: str, search: Callable[[float | None], T]) -> T:
    """Returns the result of `search`, which gets the timeout for `pattern.exact` in seconds.

    RowError after that time."""
    if is_quick(pattern, text):
        return search(None)
    try:
        return _record(pattern.text).search(pattern.text, lambda: search(TIMEOUT_S))
    except TimeoutError:
        raise RowError(f"regular expression took more than {TIMEOUT_S:g} s") from None


def is_quick(pattern: JavaRegex, text: str) -> bool:
    """True if `pattern.exact` is sure to be fast enough without a limit."""
    return pattern.tame and len(text) <= _SHORT


def with_limit(pattern: JavaRegex, text: str, seconds: float, *, spare: bool = False) -> bool:
    """True if `pattern.exact` matches anywhere in the text.

    TimeoutError after `seconds`, or a part of them if RE2 can `spare` it: RE2 takes longer as a
    rule, but never much longer."""
    return pattern.exact.search(text, timeout=_SPARED * seconds if spare else seconds) is not None


def found(pattern: JavaRegex, text: str) -> bool:
    """True if the pattern matches anywhere in the text. RowError where that takes too long."""
    if len(text) < pattern.least:
        return False
    if is_quick(pattern, text):
        return pattern.exact.search(text) is not None
    texts = pattern.re2_texts(text)
    if not texts:
        return (
            searched(pattern, text, lambda limit: pattern.exact.search(text, timeout=limit))
            is not None
        )
    record = _record(pattern.text)
    if not record.slow:
        try:
            return with_limit(pattern, text, TIMEOUT_S, spare=True)
        except TimeoutError:
            record.slow = True
    return bool(pc.any(pc.match_substring_regex(pa.array(texts, pa.string()), pattern.re2)).as_py())
