"""Counters that prove which path ran."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass
class Counters:
    """Sums since the first version of a rule set; all versions made from it share one object.

    Values: `cache_hits`, `cache_misses` and `cache_skipped` (too long, switched off, or not worth
    it) distinct values looked up; `cache_evictions` values dropped; `cache_rests` times that a
    cache was switched off for a while, since it cost more (`cache_spent_us`) than it saved
    (`cache_saved_us`). Matching of missed values: `hyperscan_scans` calls of the automaton, of
    which `joined_scans` searched several values; `exact_hits` of regular expressions for which that
    was enough; `confirmed` hits checked afterwards, of which `refuted` were none; `plain_checks`
    literals or patterns tried without the automaton; `linear_checks` texts that RE2 was asked for;
    `regex_timeouts` values without an answer, since a pattern took too long or was given up. Rules:
    `candidates` (row, rule) pairs from access predicates, `access_choices` times that these were
    chosen anew, `verifications` pairs evaluated,
    `dense_evaluations` rules evaluated column by column, `opaque_rows` rows handed to the caller.
    Databases: `compiled`, `loaded` from disk, `unreadable` files ignored, `parts_compiled` sets of
    rules."""

    cache_hits: int = 0
    cache_misses: int = 0
    cache_skipped: int = 0
    cache_evictions: int = 0
    cache_rests: int = 0
    cache_spent_us: int = 0
    cache_saved_us: int = 0
    hyperscan_scans: int = 0
    joined_scans: int = 0
    exact_hits: int = 0
    confirmed: int = 0
    refuted: int = 0
    plain_checks: int = 0
    linear_checks: int = 0
    regex_timeouts: int = 0
    candidates: int = 0
    access_choices: int = 0
    verifications: int = 0
    dense_evaluations: int = 0
    opaque_rows: int = 0
    compiled: int = 0
    loaded: int = 0
    unreadable: int = 0
    parts_compiled: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
