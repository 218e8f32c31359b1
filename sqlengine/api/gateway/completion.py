"""Completion of a statement: the words that may stand where its last word has begun."""

from __future__ import annotations

import re
from typing import Final

from parser.grammar.reserved import STRUCTURAL
from sqlengine.queries.client_session import Names

# Characters before the position that are looked at: no name is as long.
_LOOKED_AT: Final = 500
_LAST_WORD: Final = re.compile(r"[^\W\d]?\w*\Z")
_AFTER_TABLE_WORD: Final = re.compile(
    r"\b(?:FROM|JOIN|INTO|TABLE|VIEW|DESCRIBE)\s+\w*\Z", re.IGNORECASE
)
_BEGINS: Final = frozenset(
    {"BEGIN", "EXECUTE", "EXPLAIN", "DESCRIBE", "RESET", "SHOW", "STOP", "USE", "INSERT", "DROP"}
)


def candidates(statement: str, position: int, names: Names) -> list[str]:
    """Returns the words for the one that ends at a position, sorted; none where none has begun."""
    before = statement[max(0, position - _LOOKED_AT) : position]
    found = _LAST_WORD.search(before)
    word = found[0] if found is not None else ""
    if not word:
        return []
    if _AFTER_TABLE_WORD.search(before):
        words = set(names.tables)
    else:
        columns = {column for listed in names.tables.values() for column in listed}
        words = {*STRUCTURAL, *_BEGINS, *names.tables, *names.functions, *columns}
    return sorted(w for w in words if w.lower().startswith(word.lower()))
