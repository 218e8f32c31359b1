"""Parsing with an eye on what it costs."""

from __future__ import annotations

import time
import tracemalloc

from parser import parse_pieces
from parser.errors import SqlError
from parser.statements import Statement

# What a text of no length may cost in CPU seconds and bytes, and what each of its characters.
SECONDS, SECONDS_PER_CHARACTER = 1.0, 20e-6
BYTES, BYTES_PER_CHARACTER = 2_000_000, 3_000


def bounded(text: str) -> list[Statement | SqlError]:
    """The statements and errors of a text; every error has its place in it, nothing else is raised,
    and neither time nor memory is out of proportion."""
    lines = text.split("\n")
    tracemalloc.start()
    begin = time.process_time()
    try:
        found = list(parse_pieces(text))
        spent, (_, peak) = time.process_time() - begin, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    for item in found:
        if isinstance(item, SqlError):
            assert item.position is not None
            assert 1 <= item.position.column <= len(lines[item.position.line - 1]) + 1
    assert spent < SECONDS + SECONDS_PER_CHARACTER * len(text)
    assert peak < BYTES + BYTES_PER_CHARACTER * len(text)
    return found
