"""The chain of lines. Each line is an object of JSON that ends with the hash of itself, and has the
hash of the line before: a line that is changed, taken out or put in does not fit.

Whoever can write the files can make the whole chain anew from some line on. Against that, and
against lines taken from the end, helps the hash of a late line that is kept somewhere else."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

GENESIS: Final = "0" * 64
_TAIL: Final = re.compile(rb',"hash":"([0-9a-f]{64})"\}')
_NO_LINE: Final = "it is no line of an audit log"
_TAIL_BYTES: Final = len(b',"hash":""}') + 64


@dataclass(frozen=True)
class Link:
    """The place of a line in the chain: its number, from 1, and its hash."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


FIRST: Final = Link(0, GENESIS)


@dataclass(frozen=True)
class Fault:
    """The first line that does not fit. `file`, `line`: where it is, from 1; `reason`: why."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


def sealed(entry: Mapping[str, object], before: Link) -> tuple[bytes, Link]:
    """Returns the line of an entry, with its line end, and its place."""
    content = {"n": before.number + 1, "prev": before.hash, **entry}
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "backslashreplace"
    )
    own = hashlib.sha256(body).hexdigest()
    return b'%s,"hash":"%s"}\n' % (body[:-1], own.encode()), Link(before.number + 1, own)


def link_of(line: bytes) -> Link | str:
    """Returns the place of a line without its line end; what is wrong with one that was changed."""
    tail = _TAIL.fullmatch(line[-_TAIL_BYTES:])
    if tail is None:
        return "it has no hash at its end"
    body = line[:-_TAIL_BYTES] + b"}"
    own = hashlib.sha256(body).hexdigest()
    if own != tail[1].decode():
        return "it was changed: its hash is another"
    try:
        content = json.loads(body)
        return Link(int(content["n"]), own) if isinstance(content["prev"], str) else _NO_LINE
    except (ValueError, TypeError, KeyError, RecursionError):
        return _NO_LINE


def verify(files: Iterable[tuple[str, bytes]], expected: Link | None = None) -> Link | Fault:
    """Returns the place of the last line of files that follow each other, or the first fault.

    The first line that there is may have any number: older files may have been removed. `expected`:
    a line that must be there."""
    before: Link | None = None
    found, name, number = expected is None, "", 0
    for name, content in files:
        for number, line in enumerate(_lines(content), 1):
            fault = _misfit(line, before)
            if isinstance(fault, str):
                return Fault(name, number, fault)
            before = fault
            if expected is not None and before.number == expected.number:
                if before != expected:
                    return Fault(name, number, f"its hash is not the expected {expected.hash}")
                found = True
    if not found and expected is not None:
        return Fault(name, number, f"line {expected.number} is missing behind it, or before")
    return before or FIRST


def _lines(content: bytes) -> list[bytes]:
    """Returns the lines of a file; what stands behind the last line end is one, too."""
    lines = content.split(b"\n")
    return lines[:-1] if not lines[-1] else lines


def _misfit(line: bytes, before: Link | None) -> Link | str:
    """Returns the place of a line, or why it does not fit behind the line before."""
    link = link_of(line)
    if isinstance(link, str):
        return link
    previous = json.loads(line)["prev"]
    if before is None:
        begins = link.number > 1 or previous == GENESIS
        return link if begins else "it is the first line, and has one before it"
    if link.number != before.number + 1:
        return f"it has number {link.number}, behind {before.number}"
    if previous != before.hash:
        return "the line before it is another: it was changed, or lines were taken out or put in"
    return link
