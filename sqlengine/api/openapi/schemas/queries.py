"""The schemas of queries, sessions, and Flink's gateway."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    ANY,
    FLAG,
    MS,
    TEXT,
    WHOLE,
    Schema,
    by_name,
    listed,
    one_of,
    or_null,
    paged,
    record,
    ref,
)

_QUERY: Final = {
    "query": TEXT,
    "sql": TEXT,
    "client": TEXT,
    "state": one_of("running", "finished", "failed", "ended"),
    "started_ms": MS,
    "rows_read": WHOLE,
}
_ROW: Final[Schema] = {
    "type": "array",
    "prefixItems": [one_of("+I", "-U", "+U", "-D"), {"type": "array"}],
    "minItems": 2,
    "maxItems": 2,
}

QUERIES: Final[dict[str, Schema]] = {
    "Query": record(_QUERY),
    "Queries": paged("queries", ref("Query")),
    "Page": record(
        {
            **_QUERY,
            "page": WHOLE,
            "next": or_null({"type": "integer", "description": "null behind the last page"}),
            "message": or_null(TEXT),
            "job": or_null(TEXT),
            "rows_written": or_null(WHOLE),
            "columns": or_null(listed(listed(TEXT))),
            "changes": FLAG,
            "watermark_ms": or_null(WHOLE),
            "rows": listed(_ROW),
            "warnings": listed(TEXT),
            "set_aside": {"type": "integer", "description": "rows in error, which are left out"},
            "first_error": or_null(TEXT),
        },
        doc="some rows of a query: the kind of each and its values",
    ),
    "Ended": record({"query": TEXT, "state": one_of("ended")}),
    "Session": record({"session": TEXT}, {"state": one_of("closed")}),
    "Catalog": record(
        {
            "tables": listed(record({"name": TEXT, "columns": listed(TEXT)})),
            "functions": listed(TEXT),
            "jobs": listed(TEXT),
        }
    ),
    "GatewayErrors": record({"errors": listed(TEXT)}),
    "GatewayResult": record(
        {"resultType": one_of("NOT_READY", "PAYLOAD", "EOS")},
        {
            "isQueryResult": FLAG,
            "resultKind": one_of("SUCCESS", "SUCCESS_WITH_CONTENT"),
            "jobID": TEXT,
            "nextResultUri": TEXT,
            "results": record(
                {
                    "columns": listed(
                        record(
                            {"name": TEXT, "logicalType": by_name(ANY), "comment": or_null(TEXT)}
                        )
                    ),
                    "rowFormat": one_of("JSON", "PLAIN_TEXT"),
                    "data": listed(record({"kind": TEXT, "fields": listed(ANY)})),
                }
            ),
        },
        doc="a page of rows; none is behind one without nextResultUri",
    ),
}
