"""REGEXP with Java's meaning: Hyperscan finds the values that may match, the exact pattern decides.

Values that are no valid UTF-8 and patterns that Hyperscan does not take go to the exact pattern directly. A pattern
that takes too long on a value leaves an error for the two, never FALSE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rules.counters import Counters
from rules.databases import Scan, compile_single, compiles
from rules.matchers.base import HitList, Values
from rules.options import Options
from udf.java_regex import JavaRegex

# A text on which quadratic time is no matter: watching the time costs more than the search.
_SHORT = 2_000


class RegexMatcher:
    """Leaves by number that are regular expressions. `searched` are those that `scan` filters, `direct` the others."""

    def __init__(
        self,
        searched: Sequence[tuple[int, JavaRegex]],
        direct: Sequence[tuple[int, JavaRegex]],
        scan: Scan | None,
        options: Options,
        counters: Counters,
    ) -> None:
        self._searched, self._direct, self._scan = searched, direct, scan
        self._timeout = options.regex_timeout
        self._counters = counters

    def match(self, values: Values, hits: HitList) -> None:
        found: list[int] = []
        append = found.append

        def on_match(pattern: int, start: int, end: int, flags: int, context: object) -> None:
            append(pattern)

        refuted = confirmed = 0
        for value, text in enumerate(values.texts):
            if self._scan is None or not (text.isascii() or _is_valid(text)):
                self._plain(value, text, self._searched, hits)
            else:
                found.clear()
                self._scan(values.encoded[value], on_match)
                if found:
                    confirmed += len(found)
                    refuted += self._decide(value, text, [self._searched[i] for i in found], hits)
            if self._direct:
                self._plain(value, text, self._direct, hits)
        if self._scan is not None:
            self._counters.hyperscan_scans += len(values)
        self._counters.confirmed += confirmed
        self._counters.refuted += refuted

    def _plain(self, value: int, text: str, patterns: Sequence[tuple[int, JavaRegex]], hits: HitList) -> None:
        self._counters.plain_checks += len(patterns)
        self._decide(value, text, patterns, hits)

    def _decide(self, value: int, text: str, patterns: Iterable[tuple[int, JavaRegex]], hits: HitList) -> int:
        """How many of the patterns are not found."""
        missing = 0
        for leaf, pattern in patterns:
            try:
                limit = None if pattern.tame and len(text) <= _SHORT else self._timeout
                if len(text) >= pattern.least and pattern.exact.search(text, timeout=limit):
                    hits.add(value, (leaf,))
                else:
                    missing += 1
            except TimeoutError:
                self._counters.regex_timeouts += 1
                hits.add_error(value, leaf)
        return missing


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def regex_matcher(leaves: Sequence[tuple[int, JavaRegex]], options: Options, counters: Counters) -> RegexMatcher:
    """The matcher for these patterns under these switches."""
    if not options.hyperscan:
        return RegexMatcher((), leaves, None, options, counters)
    searched, direct = list(leaves), []
    scan = compile_single([p.superset for _, p in searched], counters, options.folder)
    if scan is None:  # one pattern beyond Hyperscan fails them all: find out which
        direct = [leaf for leaf in leaves if not compiles(leaf[1].superset)]
        searched = [leaf for leaf in leaves if leaf not in direct]
        if searched:
            scan = compile_single([p.superset for _, p in searched], counters, options.folder)
    if scan is None:
        return RegexMatcher((), leaves, None, options, counters)
    return RegexMatcher(searched, direct, scan, options, counters)
