"""Queries and their pages as JSON, without rows."""

from __future__ import annotations

from sqlengine.batch import MAX_WATERMARK, MIN_WATERMARK
from sqlengine.formats.results import schema_event
from sqlengine.queries.query import Query
from sqlengine.queries.results import Page


def about_query(query: Query) -> dict[str, object]:
    """Returns a query, for a list of them."""
    return {
        "query": query.identity,
        "sql": query.shown,
        "client": query.client,
        "state": query.state.value,
        "started_ms": query.started_ms,
        "rows_read": query.rows_read,
    }


def about_page(query: Query, page: Page) -> dict[str, object]:
    """Returns all of a page but its rows."""
    buffer, past = query.buffer, query.buffer.watermark
    return about_query(query) | {
        "page": page.token,
        "next": page.next,
        "message": buffer.message,
        "job": buffer.job,
        "rows_written": buffer.written,
        "columns": None if buffer.schema is None else schema_event(buffer.schema),
        "changes": buffer.changes,
        "watermark_ms": past if MIN_WATERMARK < past < MAX_WATERMARK else None,
        "warnings": list(query.warnings),
        "set_aside": query.set_aside.rows,
        "first_error": query.set_aside.first or None,
    }
