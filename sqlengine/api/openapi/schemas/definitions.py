"""The schemas of what jobs define, and of the rules among jobs."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import (
    FLAG,
    TEXT,
    WHOLE,
    Schema,
    listed,
    one_of,
    or_null,
    paged,
    record,
    ref,
)

_TABLE: Final = {
    "name": {**TEXT, "description": "without the default catalog and database"},
    "kind": one_of("table", "view"),
    "connector": or_null(TEXT),
    "column_names": listed(TEXT),
    "primary_key": listed(TEXT),
    "defined_by": listed(TEXT),
    "used_by": listed(TEXT),
}
_COLUMN: Final = {
    "name": TEXT,
    "type": TEXT,
    "null": FLAG,
    "key": or_null(TEXT),
    "extras": or_null(TEXT),
    "watermark": or_null(TEXT),
    "comment": or_null(TEXT),
}
_FUNCTION: Final = {"name": TEXT, "kind": TEXT, "defined_by": listed(TEXT)}
_RULE: Final = {"name": TEXT, "version": WHOLE, "state": TEXT, "rule": ref("Rule")}

DEFINITIONS: Final[dict[str, Schema]] = {
    "Table": record(_TABLE),
    "Tables": paged("tables", ref("Table")),
    "TableWithColumns": record({**_TABLE, "columns": listed(record(_COLUMN)), "sql": TEXT}),
    "Function": record(_FUNCTION),
    "Functions": paged("functions", ref("Function")),
    "FunctionWithText": record(
        {
            **_FUNCTION,
            "usage": TEXT,
            "text": TEXT,
            "deterministic": FLAG,
            "examples": listed(record({"expression": TEXT, "result": TEXT})),
        }
    ),
    "RuleOfJob": record(_RULE),
    "Rules": paged("rules", ref("RuleOfJob")),
    "RuleWithText": record({**_RULE, "sql": TEXT}),
}
