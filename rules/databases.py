"""Compiled pattern databases of Hyperscan, kept on disk by content: the one file that knows the
library.

A file is named by the hash of all that its content depends on and begins with a hash of the rest,
since loading a damaged database is not safe. What cannot be read or written is compiled again and
costs only time."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TypeAlias

from rules.counters import Counters

# Called with (pattern, start, end, flags, context) for each match; what it returns must be false.
OnMatch: TypeAlias = Callable[[int, int, int, int, object], None]
Scan: TypeAlias = Callable[[bytes, OnMatch], None]

# Flags by name. Without: report every match.
Flags: TypeAlias = tuple[str, ...]
_ONCE: Flags = ("SINGLEMATCH", "DOTALL", "ALLOWEMPTY")

_FORMAT = b"rules-database-1\n"
_DIGEST = 16
# More files than these are the leavings of old rules; so are the least recently used.
_MOST_FILES = 256


@lru_cache(maxsize=1)
def library() -> ModuleType | None:
    """Hyperscan, None where it is not installed (there are no wheels for some machines)."""
    try:
        import hyperscan
    except ImportError:
        return None
    return hyperscan


def compile_joined(
    patterns: Sequence[bytes], counters: Counters, folder: Path | None
) -> Scan | None:
    """Compiles a database for scans of many values in one text: it reports every match of every
    pattern. None where that is not possible."""
    return _obtain(patterns, [()] * len(patterns), counters, folder)


def compile_single(
    patterns: Sequence[bytes],
    counters: Counters,
    folder: Path | None,
    *,
    every_match: Sequence[bool] = (),
) -> Scan | None:
    """Compiles a database for scans of one value at a time.

    It reports each pattern once, by its first match, but all matches of those with `every_match`.
    None where a pattern is beyond Hyperscan."""
    every = every_match or [False] * len(patterns)
    return _obtain(patterns, [() if e else _ONCE for e in every], counters, folder)


def compiles(pattern: bytes) -> bool:
    """True if `compile_single` takes the pattern."""
    return _compile((pattern,), (_ONCE,)) is not None


def _obtain(
    patterns: Sequence[bytes], flags: Sequence[Flags], counters: Counters, folder: Path | None
) -> Scan | None:
    hyperscan = library()
    if hyperscan is None:
        return None
    path = None if folder is None else _path(folder, patterns, flags)
    database = _load(path, counters) if path is not None else None
    if database is None:
        database = _compile(patterns, flags)
        if database is None:
            return None
        counters.compiled += 1
        if path is not None:
            _store(path, hyperscan.dumpb(database))
    return _scan_of(database)


def _scan_of(database: object) -> Scan:
    scan: Scan = database.scan  # type: ignore[attr-defined]
    return scan


def _compile(patterns: Sequence[bytes], flags: Sequence[Flags]) -> object | None:
    hyperscan = library()
    if hyperscan is None:
        return None
    bits = {
        kind: sum(getattr(hyperscan, f"HS_FLAG_{name}") for name in kind) for kind in set(flags)
    }
    database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
    try:
        database.compile(
            expressions=list(patterns),
            ids=list(range(len(patterns))),
            elements=len(patterns),
            flags=[bits[kind] for kind in flags],
        )
    except hyperscan.HyperscanError:
        return None
    return database  # type: ignore[no-any-return]


def _path(folder: Path, patterns: Sequence[bytes], flags: Sequence[Flags]) -> Path:
    digest = hashlib.blake2b(_FORMAT, digest_size=20)
    machine = (platform.machine(), platform.system(), str(getattr(library(), "__version__", "")))
    kinds = "".join("1" if kind else "0" for kind in flags)
    for part in (*(m.encode() for m in (*machine, kinds)), *patterns):
        digest.update(len(part).to_bytes(4, "little"))
        digest.update(part)
    return folder / f"{digest.hexdigest()}.hs"


def _load(path: Path, counters: Counters) -> object | None:
    hyperscan = library()
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError:
        counters.unreadable += 1
        return None
    head = len(_FORMAT) + _DIGEST
    payload = content[head:]
    if hyperscan is None or content[:head] != _FORMAT + _sum(payload):
        counters.unreadable += 1
        return None
    try:
        database = hyperscan.loadb(payload, hyperscan.HS_MODE_BLOCK)
        database.scratch = hyperscan.Scratch(database)
    except hyperscan.HyperscanError:  # of a processor with other abilities
        counters.unreadable += 1
        return None
    with suppress(OSError):
        os.utime(path)
    counters.loaded += 1
    return database  # type: ignore[no-any-return]


def _sum(payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=_DIGEST).digest()


def _store(path: Path, payload: bytes) -> None:
    """Writes the file whole or not at all. A folder that cannot be written is as good as none."""
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_bytes(_FORMAT + _sum(payload) + payload)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        for old in sorted(path.parent.glob("*.hs"), key=lambda f: f.stat().st_mtime)[:-_MOST_FILES]:
            old.unlink(missing_ok=True)
