"""REGEXP with Java's meaning: Hyperscan finds the values that may match, the exact pattern decides
where the two may differ.

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
from rules.ragged import Ints
from rules.slow_patterns import SlowPatterns
from udf.java.regex import JavaRegex
from udf.text.searches import is_quick


class RegexMatcher:
    """Leaves by number that are regular expressions. `searched` are those that `scan` filters,
    `direct` the others. `take_its_word`: what the scan says is final where both mean the same."""

    def __init__(
        self,
        searched: Sequence[tuple[int, JavaRegex]],
        direct: Sequence[tuple[int, JavaRegex]],
        scan: Scan | None,
        slow_patterns: SlowPatterns,
        counters: Counters,
        *,
        take_its_word: bool = False,
    ) -> None:
        self._searched, self._direct, self._scan = searched, direct, scan
        self._slow_patterns, self._counters = slow_patterns, counters
        self._leaves = np.array([leaf for leaf, _ in searched], np.int64)
        self._final = np.array([take_its_word and p.same_in_ascii for _, p in searched], np.bool_)

    def match(self, values: Values, hits: HitList) -> None:
        decision = _Decision(self._slow_patterns, self._counters, hits)
        if self._scan is None:
            self._check(decision, values, range(len(values)), self._searched)
        else:
            self._search(self._scan, values, hits, decision)
        if self._direct:
            self._check(decision, values, range(len(values)), self._direct)
        decision.finish()

    def _check(
        self,
        decision: _Decision,
        values: Values,
        which: Sequence[int],
        patterns: Sequence[tuple[int, JavaRegex]],
    ) -> None:
        """Tries all patterns on some values."""
        self._counters.plain_checks += len(which) * len(patterns)
        for value in which:
            text = values.texts[value]
            decision.decide(value, text, _is_valid(text), patterns)

    def _search(self, scan: Scan, values: Values, hits: HitList, decision: _Decision) -> None:
        # Hyperscan reads UTF-8, so a text with lone surrogates is never shown to it.
        invalid = (
            [] if values.ascii else [i for i, t in enumerate(values.texts) if not _is_valid(t)]
        )
        self._check(decision, values, invalid, self._searched)
        which, patterns = self._hits(scan, values, frozenset(invalid))
        self._counters.hyperscan_scans += len(values) - len(invalid)
        if not len(which):
            return
        final = self._final[patterns]
        if not values.ascii or values.line_ends:
            plain = np.fromiter(map(_is_plain, values.texts), np.bool_, len(values))
            final &= plain[which]
        hits.add_pairs(which[final], self._leaves[patterns[final]])
        self._counters.exact_hits += int(np.count_nonzero(final))
        which, patterns = which[~final], patterns[~final]
        self._counters.confirmed += len(which)
        for value, pattern in zip(which.tolist(), patterns.tolist(), strict=True):
            self._counters.refuted += decision.decide(
                value, values.texts[value], True, (self._searched[pattern],)
            )

    def _hits(self, scan: Scan, values: Values, skipped: frozenset[int]) -> tuple[Ints, Ints]:
        """(value, number of a pattern) for what is found, values ascending."""
        found: list[int] = []
        counts: list[int] = []
        note = found.append

        def on_match(pattern: int, start: int, end: int, flags: int, context: object) -> None:
            note(pattern)

        for value, data in enumerate(values.encoded):
            if value not in skipped:
                scan(data, on_match)
            counts.append(len(found))
        totals = np.array([0, *counts], np.int64)
        which = np.arange(len(values)).repeat(totals[1:] - totals[:-1])
        return which, np.array(found, np.int64)


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


def _is_plain(text: str) -> bool:
    return text.isascii() and "\n" not in text and "\r" not in text


def _is_valid(text: str) -> bool:
    if text.isascii():
        return True
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
    return RegexMatcher(
        searched, direct, scan, slow_patterns, counters, take_its_word=options.exact_scan
    )
