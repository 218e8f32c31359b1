"""The thread of a statement: what becomes of it, and of its error."""

from __future__ import annotations

import logging
from typing import Final

from parser.errors import ServiceError, SqlError
from sqlengine.access.audit.log import Audit, Event
from sqlengine.connectors.plain_secrets import plain_values
from sqlengine.functions.pool import POOL
from sqlengine.queries.execution import Execution
from sqlengine.queries.query import Query
from sqlengine.system.hidden import hide

log = logging.getLogger("sqlengine")

# The group of the workers that run users' functions for queries.
WORKERS: Final = "queries"


def run(query: Query, execution: Execution, audit: Audit) -> None:
    """Runs the statements of a query, whose buffer has their error. `audit` is told of one that
    has ended since its client may not ask any more."""
    error: SqlError | None = None
    try:
        with POOL.apart(WORKERS):
            execution.run()
    except SqlError as failure:
        error = hide(failure, plain_values(query.sql))
    except Exception:
        log.exception("query of %s failed: %s", query.client, query.shown[:200])
        error = ServiceError("internal error in a query", detail="the server's log has the trace")
    if query.lost is not None and error is not None:
        why = f"{query.lost}: {query.shown}"
        ended = Event(query.by.name, query.client, "end query", query.identity, 0, "done", why)
        audit.write([ended])
    query.buffer.complete(error)
