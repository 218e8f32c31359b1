"""Switches and bounds of the rule engine. Results are the same with every combination of
switches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """Switches: `cache` remembers the predicates that a value makes true; `hyperscan` searches
    literals and regular expressions with one automaton per variable (else one by one);
    `joined_scan` lets it search many values in one call; `exact_scan` takes its word for it where
    that is enough (else each hit is searched again); `access` picks candidate rules by their
    access predicates (else every rule is evaluated for every row), and `learned_access` chooses
    these by what the stream shows (else by what rules say); `dense_fallback` evaluates a
    rule column by column where most rows are its candidates (else row by row).

    Bounds, per variable: `cache_entries` values, none longer than `max_cached_value_bytes`, which
    together make at most `cache_pairs` predicates true. `regex_timeout`: CPU seconds for one
    regular expression on one value, where it may go back and try again; `regex_budget`: how many
    seconds it may be behind its time before it is given up. `folder`: where compiled databases are
    kept between starts (None: nowhere). `clock`: CPU seconds, by which a cache finds out whether it
    pays (None: by how many values it finds)."""

    cache: bool = True
    hyperscan: bool = True
    joined_scan: bool = True
    exact_scan: bool = True
    access: bool = True
    learned_access: bool = True
    dense_fallback: bool = True
    cache_entries: int = 10_000
    max_cached_value_bytes: int = 1024
    cache_pairs: int = 1_000_000
    regex_timeout: float = 0.1
    regex_budget: float = 0.3
    folder: Path | None = None
    clock: Callable[[], float] | None = None
