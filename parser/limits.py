"""Limits that keep one record, value or text from taking what others need.

They hold for a whole process and those that it starts. `docs/limits.md` lists them with their
errors and remedies."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Final

from parser.errors import OptionError

# The variable that hands limits other than the defaults to processes: `value-size=32MB,…`.
VARIABLE: Final = "SQLENGINE_LIMITS"


@dataclass(frozen=True)
class Limits:
    """The limits, sizes in bytes; on the outside `record_size` is called `record-size`.

    Data: `record_size` of a record that is read; `value_size` of a text, array or map that a
    function makes; `column_size` of such values that are held at once for the rows of a batch.

    Texts: `statement_size` of one statement, `text_size` of all statements of a job;
    `select_columns` of one SELECT; `plan_nodes` of a statement's plan with its views written out;
    `expression_nodes` of one expression with those that it reads; `folded_size` of a constant that
    the planner computes; `planning_time`: seconds for the planning of a job, or of an ad-hoc
    statement; `session_size` of what a client's sessions keep.

    Requests: `request_size` of a body, `head_size` of what stands before it; `head_time`: seconds
    in which the head comes, `body_time`: seconds in which nothing of a body or of an answer passes;
    `connections` of all clients, `connections_by_address` of one; `waiting_requests` that are held
    until there is something to tell."""

    record_size: int = 10 << 20
    value_size: int = 16 << 20
    column_size: int = 64 << 20
    statement_size: int = 1 << 20
    text_size: int = 16 << 20
    select_columns: int = 10_000
    plan_nodes: int = 20_000
    expression_nodes: int = 200_000
    folded_size: int = 4 << 10
    planning_time: int = 30
    session_size: int = 2 << 20
    request_size: int = 64 << 20
    head_size: int = 64 << 10
    head_time: int = 10
    body_time: int = 30
    connections: int = 600
    connections_by_address: int = 300
    waiting_requests: int = 256


def names() -> list[str]:
    """The names of the limits as they are written on the outside."""
    return [f.name.replace("_", "-") for f in fields(Limits)]


def changed(limits: Limits, texts: Iterable[str]) -> Limits:
    """The limits with those of `texts`, each `NAME=VALUE`. OptionError for one that is none."""
    given: dict[str, int] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or name.strip() not in names():
            raise OptionError(
                f"'{text}' is no limit", hint="NAME=VALUE, where NAME is " + ", ".join(names())
            )
        given[name.strip().replace("-", "_")] = _number(name.strip(), value)
    return replace(limits, **given)


_POWERS: Final = {"": 0, "k": 10, "m": 20, "g": 30}
_SIZE: Final = re.compile(r"(\d+)\s*(?:([kmg])b?|b)?", re.IGNORECASE)
_SECONDS: Final = re.compile(r"(\d+)\s*(s|min)?")


def _number(name: str, text: str) -> int:
    """The value of a limit: a size (`16MB`), seconds (`30s`), or a plain number."""
    sized, timed = name.endswith("-size"), name.endswith("-time")
    form = _SIZE if sized else _SECONDS if timed else re.compile(r"(\d+)")
    match = form.fullmatch(text.strip())
    if match is None or not int(match[1]):
        expected = "a size such as 16MB" if sized else "a time such as 30s" if timed else "a number"
        raise OptionError(f"'{name}' cannot be '{text.strip()}'", hint=f"{expected} expected")
    if sized:
        return int(match[1]) << _POWERS[(match[2] or "").lower()]
    return int(match[1]) * (60 if timed and match[2] == "min" else 1)


def written(limits: Limits) -> str:
    """The limits that are not the defaults, as the variable of the environment has them."""
    standard = Limits()
    return ",".join(
        f"{f.name.replace('_', '-')}={getattr(limits, f.name)}"
        for f in fields(Limits)
        if getattr(limits, f.name) != getattr(standard, f.name)
    )


def from_environment(environment: Mapping[str, str]) -> Limits:
    """The limits that the environment has; OptionError for one that is none."""
    return changed(Limits(), [t for t in environment.get(VARIABLE, "").split(",") if t.strip()])


class _Lifted(threading.local):
    """True while this thread plans what was accepted before."""

    lifted: bool = False


_LIFTED = _Lifted()


@contextmanager
def lifted() -> Iterator[None]:
    """No limits on texts and plans in this thread, within the body: for what was accepted before,
    perhaps under other limits."""
    before, _LIFTED.lifted = _LIFTED.lifted, True
    try:
        yield
    finally:
        _LIFTED.lifted = before


def is_lifted() -> bool:
    """True where this thread has no limits on texts and plans."""
    return _LIFTED.lifted


def refused(number: int, name: str) -> int | None:
    """The limit on texts or plans of that name, if a number is beyond it; None where it is not."""
    most: int = getattr(present(), name)
    return most if number > most and not _LIFTED.lifted else None


class _Present:
    """The limits of this process, read when they are first asked for."""

    limits: Limits | None = None


def present() -> Limits:
    """The limits of this process."""
    if _Present.limits is None:
        _Present.limits = from_environment(os.environ)
    return _Present.limits


def use(limits: Limits) -> None:
    """Sets the limits of this process and of those that it starts from now on."""
    _Present.limits = limits
    text = written(limits)
    if text:
        os.environ[VARIABLE] = text
    else:
        os.environ.pop(VARIABLE, None)


@contextmanager
def using(**limits: int) -> Iterator[None]:
    """Other limits within the body, by the names of the fields of `Limits`."""
    before = present()
    use(replace(before, **limits))
    try:
        yield
    finally:
        use(before)


def bytes_text(number: int) -> str:
    """A number of bytes for messages: `16,777,216 bytes`."""
    return f"{number:,} byte{'' if number == 1 else 's'}"
