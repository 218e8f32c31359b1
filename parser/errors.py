"""Errors that people see: what is wrong, why, what to do, and where.

SqlError
├── ParseError        the text is not a statement
├── PlanError         the statement means nothing here (unknown names, wrong types)
│   ├── UnknownObject      no table, view or function of that name (it may come later)
│   ├── OptionError        a WITH option (`subject` is its key) is missing, unknown or wrong
│   ├── ColumnError        a column (`subject` is its name) is none that its table can have
│   └── UnsupportedError   Flink has it, this version does not
│       ├── UnsupportedOption  (an OptionError, too)
│       └── UnsupportedColumn  (a ColumnError, too)
├── ExecutionError    a job failed while it ran
├── JobError          a change of jobs was refused
│   └── ObjectExists       a name stands for something else already (`detail` is the name in full)
└── ServiceError      the server, the data folder or the network is at fault
    └── TryAgain           nothing was done, and the same works once what is in the way is gone
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a text: `line` and `column` count from 1, `length` is the width of the thing in
    characters."""

    line: int
    column: int
    length: int = 1
    file: str | None = None

    def __str__(self) -> str:
        place = f"{self.line}:{self.column}"
        return f"{self.file}:{place}" if self.file else place


class SqlError(Exception):
    """The root of all errors that are shown to people.

    `message` is lowercase and has no full stop; `detail` says why, `hint` what to do about it,
    `position` where; `subject` is the name of the thing that is wrong, for whoever knows where that
    stands or what it is; `table` is the full name of the table whose definition is to blame, and
    `used_at` the statement that failed, where `position` is in that definition.
    """

    title = "error"

    def __init__(
        self,
        message: str,
        *,
        detail: str | None = None,
        hint: str | None = None,
        position: Position | None = None,
        subject: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.position = position
        self.subject = subject
        self.table: tuple[str, ...] | None = None
        self.used_at: Position | None = None
        self._notes: list[str] = []

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        """The hint, and what was added: Python prints it behind an error that nobody catches."""
        return [*(() if self.hint is None else (f"hint: {self.hint}",)), *self._notes]

    def add_note(self, note: str) -> None:
        """See `BaseException.add_note`."""
        self._notes.append(note)

    def at(self, position: Position | None) -> SqlError:
        """Sets `position` unless there is one already; returns the error itself."""
        if self.position is None:
            self.position = position
        return self

    def about_table(self, name: tuple[str, ...]) -> SqlError:
        """Sets the table unless there is one already, and names it where the text does not; returns
        the error itself."""
        if self.table is None:
            self.table = name
            if f"'{name[-1]}'" not in self.reason or "table" not in self.reason:
                self.message = f"table '{name[-1]}': {self.message}"
        return self

    def in_file(self, file: str | None) -> SqlError:
        """Sets the file of the position unless it names one already; returns the error itself."""
        self.position, self.used_at = _in_file(self.position, file), _in_file(self.used_at, file)
        return self

    def __copy__(self) -> Self:
        """Returns an equal error, with all that one of its class knows besides."""
        made = type(self).__new__(type(self), *self.args)
        vars(made).update(vars(self), _notes=[*self._notes])
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args), {name: vars(self)[name] for name in _CROSSES}

    @property
    def reason(self) -> str:
        """The message with its detail, without the place: equal for equal faults elsewhere."""
        return self.message + (f" ({self.detail})" if self.detail else "")

    @property
    def with_hint(self) -> str:
        """The text of `str` and what to do about it, in one line: for lists and logs. Texts of
        libraries, which a detail may have, can be several."""
        told = str(self) if self.hint is None else f"{self}; {self.hint}"
        return " ".join(line.strip() for line in told.splitlines())

    def __str__(self) -> str:
        return (f"{self.position}: " if self.position else "") + self.reason


def _in_file(place: Position | None, file: str | None) -> Position | None:
    return replace(place, file=file) if file and place is not None and not place.file else place


# What an error still says in another process, as that of one that plans.
_CROSSES = ("message", "detail", "hint", "position", "subject", "table", "used_at", "_notes")


def _rebuild(kind: type[SqlError], args: tuple[object, ...]) -> SqlError:
    """Returns an error without calling its class, whose arguments are not all in `args`."""
    return kind.__new__(kind, *args)


class ParseError(SqlError):
    title = "syntax error"


class PlanError(SqlError):
    title = "invalid statement"


class UnknownObject(PlanError):
    pass


class OptionError(PlanError):
    pass


class ColumnError(PlanError):
    pass


class UnsupportedError(PlanError):
    title = "not supported"


class UnsupportedOption(OptionError, UnsupportedError):
    pass


class UnsupportedColumn(ColumnError, UnsupportedError):
    pass


class ExecutionError(SqlError):
    title = "job failed"


class JobError(SqlError):
    title = "change refused"


class ObjectExists(JobError):
    title = "change refused"


class ServiceError(SqlError):
    title = "service error"


class TryAgain(ServiceError):
    pass


@contextmanager
def of_column(name: str) -> Iterator[None]:
    """Raises UnsupportedColumn in the place of an UnsupportedError that knows only a type."""
    try:
        yield
    except UnsupportedError as error:
        if isinstance(error, ColumnError):
            raise
        raise UnsupportedColumn(
            f"{error.message}, in column '{name}'",
            detail=error.detail,
            hint=error.hint,
            subject=name,
        ) from None


def as_json(error: SqlError) -> dict[str, object]:
    """`error` for programs, as REST and `--output json` tell it; `line` and `column` count from
    1."""
    body: dict[str, object] = {
        "type": f"urn:sqlengine:{type(error).__name__}",
        "title": error.title,
        "message": error.message,
        "detail": str(error),
    }
    body |= {"cause": error.detail} if error.detail else {}
    body |= {"hint": error.hint} if error.hint else {}
    if (at := error.position) is not None:
        body |= {"line": at.line, "column": at.column, "length": at.length}
        body |= {"file": at.file} if at.file else {}
    return body


def render(error: SqlError, text: str | None = None) -> str:
    """`error` as several lines for a terminal; with the statement's `text`, the line at fault and a
    caret under it."""
    place = f"{error.position}: " if error.position else ""
    lines = [f"{place}{error.title}: {error.message}"]
    if text is not None and error.position is not None:
        lines += _caret(text, error.position)
    if error.used_at is not None:
        lines.append(f"  used at: {error.used_at}")
    if error.detail:
        lines.append(f"  detail: {error.detail}")
    if error.hint:
        lines.append(f"  hint: {error.hint}")
    return "\n".join(lines)


def _caret(text: str, position: Position) -> list[str]:
    source = text.split("\n")  # as positions count; other line separators stand inside a line
    if not 1 <= position.line <= len(source):
        return []
    line = source[position.line - 1]
    # A rule may be one line of 300 kB: show what is around the place.
    start = max(0, position.column - 61)
    shown = "".join(c if c.isprintable() else " " for c in line[start : start + 120])
    width = max(1, min(position.length, len(shown) - (position.column - 1 - start)))
    return ["  | " + shown, "  | " + " " * (position.column - 1 - start) + "^" * width]
