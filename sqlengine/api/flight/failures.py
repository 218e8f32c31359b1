"""Errors as clients of Flight see them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from pyarrow import flight

from parser.errors import (
    JobError,
    ParseError,
    PlanError,
    ServiceError,
    SqlError,
    UnsupportedError,
)
from parser.writer.parameters import BadParameters
from parser.writer.values import BadValue
from sqlengine.access.policy import Forbidden, Unauthorised
from sqlengine.api.flight.wire import BadMessage
from sqlengine.queries.query import QueryEnded
from sqlengine.system.hidden import hidden

log = logging.getLogger("sqlengine")
# The first line that has the error's class counts.
_KINDS: Final = (
    (Unauthorised, flight.FlightUnauthenticatedError),
    (Forbidden, flight.FlightUnauthorizedError),
    (UnsupportedError, NotImplementedError),
    ((ParseError, PlanError, BadMessage, BadParameters, BadValue), pa.ArrowInvalid),
    (JobError, pa.ArrowInvalid),
    (QueryEnded, flight.FlightTimedOutError),
    (ServiceError, flight.FlightUnavailableError),
)
_FAULT: Final = "internal error, the server's log has the trace"


def failure(error: SqlError) -> Exception:
    """Returns an error as one of Arrow, which gRPC has a status for."""
    kind = next((k for ours, k in _KINDS if isinstance(error, ours)), flight.FlightServerError)
    return kind(hidden(error.with_hint))


@contextmanager
def answering(what: str) -> Iterator[None]:
    """Raises errors of the engine as clients see them; of a fault they see no trace."""
    try:
        yield
    except SqlError as error:
        raise failure(error) from None
    except (flight.FlightError, pa.ArrowException, NotImplementedError, GeneratorExit):
        raise
    except Exception:
        log.exception("Flight: %s failed", what)
        raise flight.FlightInternalError(_FAULT) from None
