"""Searching with Java's patterns, a value at a time: in linear time where RE2 can, else with a
timeout and an account.

A pattern that goes back and tries again may take for ever on one value, or a little too long on
each of thousands. Both would make everybody wait, so it is given up: the values that it is not
asked for have no answer, which is said."""

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
class Patience:
    """The account of one pattern: each search brings in what it may take and pays what it took.
    When it is `most_behind` seconds behind, its patience is at an end. The clock never decides what
    an answer is, only that there is none."""

    most_behind: float = 0.3
    behind: float = 0.0

    @property
    def is_over(self) -> bool:
        return self.behind > self.most_behind

    def watch(self, search: Callable[[], T]) -> T:
        """Runs `search` and counts its CPU time."""
        begin = time.thread_time()
        try:
            return search()
        finally:
            self.behind = max(0.0, self.behind + time.thread_time() - begin - _ALLOWED_S)


@dataclass
class _Account:
    """`left_out`: searches still to leave out before the pattern is tried again. `slow`: RE2 is
    asked where it can be."""

    patience: Patience
    pause: int = _PAUSE
    left_out: int = 0
    slow: bool = False

    def search(self, pattern: str, search: Callable[[], T]) -> T:
        if self.left_out > 0:
            self.left_out -= 1
            raise RowError(
                f"regular expression '{pattern}' was given up for a while: it takes too long"
            )
        try:
            return self.patience.watch(search)
        finally:
            if self.patience.is_over:
                self.left_out, self.pause = self.pause, min(2 * self.pause, _LONGEST_PAUSE)
                self.patience = Patience()


@lru_cache(maxsize=4096)
def _account(pattern: str) -> _Account:
    return _Account(Patience())


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
        return _account(pattern.text).search(pattern.text, lambda: search(TIMEOUT_S))
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
    account = _account(pattern.text)
    if not account.slow:
        try:
            return with_limit(pattern, text, TIMEOUT_S, spare=True)
        except TimeoutError:
            account.slow = True
    return bool(pc.any(pc.match_substring_regex(pa.array(texts, pa.string()), pattern.re2)).as_py())
