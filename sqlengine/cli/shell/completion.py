"""Completion in the shell: keywords, tables, columns, functions and commands, by what stands before
the cursor."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

_WORD = re.compile(r"(?:(?P<of>[\w$]+)\.)?(?P<word>[\w$]*)$")
_NAMES = re.compile(r"[\w$]+")
# A table follows these words.
_BEFORE_TABLE: Final = re.compile(
    r"\b(?:FROM|JOIN|INTO|TABLE|DESCRIBE|DESC|VIEW)\s+[\w$]*$|^\\d\+?\s+[\w$]*$", re.IGNORECASE
)
_BEFORE_JOB: Final = re.compile(r"\bSTOP\s+JOB\s+'?[\w$]*$", re.IGNORECASE)
# Words besides those that begin or join clauses.
_MORE: Final = (
    "ALTER ASC CATALOGS COLUMNS COUNT CURRENT_TIMESTAMP DATABASES DESC DESCRIPTOR DISTINCT FALSE"
    " FUNCTION FUNCTIONS HOP INTERVAL JOB JOBS MODULES PROCTIME RETURNS STATEMENT STOP STRING SUM"
    " TABLES TEMPORARY TIMESTAMP TRUE TUMBLE VIEW VIEWS WATERMARK"
).split()


@dataclass(frozen=True)
class Names:
    """The names that statements can use: tables and views with their columns."""

    tables: Mapping[str, Sequence[str]] = field(default_factory=dict)
    functions: Sequence[str] = ()
    jobs: Sequence[str] = ()


@dataclass(frozen=True)
class Candidate:
    """A word to insert for the last `length` characters before the cursor, and its kind."""

    text: str
    length: int
    kind: str


def candidates(text: str, names: Names, commands: Sequence[str]) -> Iterator[Candidate]:
    """Yields what can follow `text`, which stands before the cursor: tables where a table is
    expected, columns of the tables that it names before everything else."""
    if re.fullmatch(r"\\\S*", text):
        yield from (Candidate(c, len(text), "command") for c in commands if c.startswith(text))
        return
    match = _WORD.search(text)
    assert match is not None
    word = match["word"]
    seen: set[str] = set()
    for kind, words in _offers(text, match["of"], names):
        for offer in words:
            if offer.lower().startswith(word.lower()) and offer not in seen and offer != word:
                seen.add(offer)
                yield Candidate(offer, len(word), kind)


def _offers(text: str, of: str | None, names: Names) -> Iterator[tuple[str, Iterable[str]]]:
    if of is not None:
        yield "column", _columns(of, text, names)
    elif _BEFORE_TABLE.search(text):
        yield "table", names.tables
    elif _BEFORE_JOB.search(text):
        yield "job", names.jobs
    elif not _WORD.sub("", text).strip():  # the first word begins a statement
        yield "keyword", keywords()
    else:
        mentioned = set(_NAMES.findall(text))
        yield "column", [c for t, cs in names.tables.items() if t in mentioned for c in cs]
        yield "keyword", keywords()
        yield "table", names.tables
        yield "function", names.functions


def _columns(of: str, text: str, names: Names) -> Sequence[str]:
    """Returns the columns of a table or of its alias in `text`."""
    if of in names.tables:
        return names.tables[of]
    for table, columns in names.tables.items():
        alias = rf"\b{re.escape(table)}\s+(?:AS\s+)?{re.escape(of)}\b"
        if re.search(alias, text, re.IGNORECASE):
            return columns
    return ()


def keywords() -> Sequence[str]:
    """Returns the words of SQL in their order."""
    from parser.grammar.reserved import STRUCTURAL

    return sorted({*STRUCTURAL, *_MORE})
