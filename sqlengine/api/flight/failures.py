"""Errors as clients of Flight see them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from pyarrow import flight

from parser.errors import ServiceError, SqlError
from sqlengine.access.policy import Forbidden, Unauthorised
from sqlengine.queries.query import QueryEnded
from sqlengine.system.hidden import hidden

log = logging.getLogger("sqlengine")
# The first line that has the error's class counts. Others than those of Flight, which would say
# that a statement is at fault, would show clients a trace of this server.
_KINDS: Final = (
    (Unauthorised, flight.FlightUnauthenticatedError),
    (Forbidden, flight.FlightUnauthorizedError),
    (QueryEnded, flight.FlightTimedOutError),
    (ServiceError, flight.FlightUnavailableError),
)
_FAULT: Final = "internal error, the server's log has the trace"


class Refused(Exception):
    """An error of GetSchema, for which pyarrow makes no status of the errors of Flight, but appends
    the trace of any exception to its message that it can show. This one it cannot."""

    @property
    def __cause__(self) -> BaseException | None:  # type: ignore[override]
        raise AttributeError("it has a message, and no trace")


@contextmanager
def without_trace() -> Iterator[None]:
    """Raises errors of Flight so that their message is all that a client sees of them."""
    try:
        yield
    except flight.FlightError as error:
        message = str(error)
    else:
        return
    raise Refused(message)


def failure(error: SqlError) -> Exception:
    """Returns an error as one of Arrow, which gRPC has a status for."""
    kind = next((k for ours, k in _KINDS if isinstance(error, ours)), flight.FlightServerError)
    found: Exception = kind(hidden(error.with_hint))
    return found


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Raises errors of the engine as clients see them; of a fault they see no trace."""
    try:
        yield
    except SqlError as error:
        raise failure(error) from None
    except (flight.FlightError, GeneratorExit):
        raise
    except pa.ArrowException as error:  # of a stream that has come, or was cut
        raise flight.FlightServerError(str(error).partition(". Detail")[0]) from None
    except Exception:
        log.exception("Flight: %s failed", what)
        raise flight.FlightInternalError(_FAULT) from None
