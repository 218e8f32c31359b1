"""The errors of PEP 249, and which of them an error of the engine is.

Warning
Error
├── InterfaceError           a cursor or connection that is closed, a fetch without a result
└── DatabaseError
    ├── DataError            a value that SQL cannot say, a row in error
    ├── OperationalError     no server, a limit, a token that is not the server's
    ├── IntegrityError       not raised: Flink's tables do not enforce their keys
    ├── InternalError        a fault of the engine
    ├── ProgrammingError     a statement that is none, or means nothing here
    └── NotSupportedError    what Flink has and this version does not; transactions
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from parser.errors import (
    ExecutionError,
    JobError,
    ParseError,
    PlanError,
    Position,
    SqlError,
    UnsupportedError,
)
from parser.writer.parameters import BadParameters
from parser.writer.values import BadValue
from sqlengine.client import Refused


class Warning(Exception):  # noqa: A001
    """PEP 249 has it; warnings come as those of Python."""


class Error(Exception):
    """The root of all. `message`, `detail`, `hint` and `position` are those of the engine's
    error, where there is one."""

    message: str = ""
    detail: str | None = None
    hint: str | None = None
    position: Position | None = None


class InterfaceError(Error):
    """A fault in the use of a connection or a cursor."""


class DatabaseError(Error):
    """A fault of a statement, its data, or the engine."""


class DataError(DatabaseError):
    """A fault of data."""


class OperationalError(DatabaseError):
    """A fault that is not the program's."""


class IntegrityError(DatabaseError):
    """A fault of keys; not raised."""


class InternalError(DatabaseError):
    """A fault of the engine."""


class ProgrammingError(DatabaseError):
    """A fault of a statement."""


class NotSupportedError(DatabaseError):
    """A use of what there is not."""


# The first line that has the error's class counts.
_KINDS: Final[tuple[tuple[type[SqlError], type[DatabaseError]], ...]] = (
    (BadValue, DataError),
    (BadParameters, ProgrammingError),
    (UnsupportedError, NotSupportedError),
    (ParseError, ProgrammingError),
    (PlanError, ProgrammingError),
    (JobError, ProgrammingError),
    (ExecutionError, DataError),
)
# The same by the HTTP status of a server's refusal.
_STATUS: Final[dict[object, type[DatabaseError]]] = {
    400: ProgrammingError,
    404: ProgrammingError,
    409: ProgrammingError,
    422: NotSupportedError,
    500: DataError,
}


def translated(error: SqlError) -> Error:
    """Returns an error of the engine as one of PEP 249."""
    if isinstance(error, Refused):
        kind = _STATUS.get(error.status, OperationalError)
    else:
        kind = next((k for ours, k in _KINDS if isinstance(error, ours)), OperationalError)
    found = kind(str(error) + (f"; {error.hint}" if error.hint else ""))
    found.message, found.detail = error.message, error.detail
    found.hint, found.position = error.hint, error.position
    return found


@contextmanager
def translating() -> Iterator[None]:
    """Raises errors of the engine as those of PEP 249."""
    try:
        yield
    except SqlError as error:
        raise translated(error) from error
