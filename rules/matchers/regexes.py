"""REGEXP with Java's meaning: Hyperscan finds the values that may match, the exact pattern decides.

Values that are no valid UTF-8 and patterns that Hyperscan does not take go to the exact pattern
directly. Where the `regex` package takes long RE2 decides, for all values at once, if it means the
same; else there is an error for the pattern and the value, never FALSE."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rules.counters import Counters
from rules.databases import Scan, compile_single, compiles
from rules.matchers.base import HitList, Values
from rules.options import Options
from rules.slow_patterns import SlowPatterns
from udf.java.regex import JavaRegex
from udf.text.searches import is_quick


class RegexMatcher:
    """Leaves by number that are regular expressions. `searched` are those that `scan` filters,
    `direct` the others."""

    def __init__(
        self,
        searched: Sequence[tuple[int, JavaRegex]],
        direct: Sequence[tuple[int, JavaRegex]],
        scan: Scan | None,
        slow_patterns: SlowPatterns,
        counters: Counters,
    ) -> None:
        self._searched, self._direct, self._scan = searched, direct, scan
        self._slow_patterns, self._counters = slow_patterns, counters

    def match(self, values: Values, hits: HitList) -> None:
        matches: list[int] = []
        append = matches.append

        def on_match(pattern: int, start: int, end: int, flags: int, context: object) -> None:
            append(pattern)

        decision = _Decision(self._slow_patterns, self._counters, hits)
        for value, text in enumerate(values.texts):
            # Hyperscan reads UTF-8, so a text with lone surrogates is never shown to it.
            valid = text.isascii() or _is_valid(text)
            if self._scan is None or not valid:
                self._counters.plain_checks += len(self._searched)
                decision.decide(value, text, valid, self._searched)
            else:
                matches.clear()
                self._scan(values.encoded[value], on_match)
                if matches:
                    self._counters.confirmed += len(matches)
                    self._counters.refuted += decision.decide(
                        value, text, valid, [self._searched[i] for i in matches]
                    )
            if self._direct:
                self._counters.plain_checks += len(self._direct)
                decision.decide(value, text, valid, self._direct)
        if self._scan is not None:
            self._counters.hyperscan_scans += len(values)
        decision.finish()


class _Decision:
    """Decides the exact patterns on the values of one batch.

    `_linear`: texts that RE2 is asked for at the end, and the values that they stand for, by
    leaf."""

    def __init__(self, slow_patterns: SlowPatterns, counters: Counters, hits: HitList) -> None:
        self._slow_patterns, self._counters, self._hits = slow_patterns, counters, hits
        self._linear: dict[int, tuple[str, list[str], list[int]]] = {}

    def decide(
        self, value: int, text: str, valid: bool, patterns: Iterable[tuple[int, JavaRegex]]
    ) -> int:
        """Decides patterns on one value.

        Returns how many do not match, of those that are not left to RE2."""
        missing = 0
        for leaf, pattern in patterns:
            # Shorter than any match can be: no need to search.
            if len(text) < pattern.least:
                missing += 1
            elif is_quick(pattern, text):
                missing += not self._note(value, leaf, pattern.exact.search(text) is not None)
            else:
                missing += not self._decide_slow(
                    value, text, leaf, pattern, pattern.re2_texts(text) if valid else ()
                )
        return missing

    def _decide_slow(
        self, value: int, text: str, leaf: int, pattern: JavaRegex, texts: Sequence[str]
    ) -> bool:
        """False where it is not found. `texts`: what RE2 can be asked for instead, which takes
        longer as a rule, but never much longer."""
        # A pattern that was slow before is left to RE2 at once, if that means the same.
        if not (texts and leaf in self._slow_patterns.slow):
            try:
                return self._note(
                    value, leaf, self._slow_patterns.search(leaf, pattern, text, spare=bool(texts))
                )
            except TimeoutError:
                # Without RE2 the answer is unknown: an error, but never FALSE.
                if not texts:
                    self._counters.regex_timeouts += 1
                    self._hits.add_error(value, leaf)
                    # True here only says that nothing was refuted.
                    return True
        _, waiting, owners = self._linear.setdefault(leaf, (pattern.re2 or "", [], []))
        waiting += texts
        owners += [value] * len(texts)
        return True

    def _note(self, value: int, leaf: int, matches: bool) -> bool:
        if matches:
            self._hits.add(value, (leaf,))
        return matches

    def finish(self) -> None:
        """Asks RE2 for what was left to it."""
        for leaf, (pattern, texts, owners) in self._linear.items():
            mask = pc.match_substring_regex(pa.array(texts, pa.string()), pattern).to_numpy(
                zero_copy_only=False
            )
            matched = np.array(owners)[mask]
            self._counters.linear_checks += len(texts)
            self._hits.add_pairs(matched, np.full(len(matched), leaf))


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def regex_matcher(
    leaves: Sequence[tuple[int, JavaRegex]],
    options: Options,
    slow_patterns: SlowPatterns,
    counters: Counters,
) -> RegexMatcher:
    """The matcher for these patterns under these switches."""
    if not options.hyperscan:
        return RegexMatcher((), leaves, None, slow_patterns, counters)
    # The order must not be that of the rules.
    searched = sorted(leaves, key=lambda leaf: leaf[1].superset)
    direct: list[tuple[int, JavaRegex]] = []
    scan = compile_single([p.superset for _, p in searched], counters, options.folder)
    if scan is None:  # one pattern beyond Hyperscan fails them all: find out which
        direct = [leaf for leaf in leaves if not compiles(leaf[1].superset)]
        searched = [leaf for leaf in leaves if leaf not in direct]
        if searched:
            scan = compile_single([p.superset for _, p in searched], counters, options.folder)
    if scan is None:
        return RegexMatcher((), leaves, None, slow_patterns, counters)
    return RegexMatcher(searched, direct, scan, slow_patterns, counters)
