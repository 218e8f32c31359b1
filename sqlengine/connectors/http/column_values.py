"""Values of columns as JSON, for templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from parser.types import Schema
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.http.templates import Values
from sqlengine.formats.registry import encoder_of, get_format

_ROW: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ColumnValues:
    """Reads the values of columns, as the JSON of the table's format writes them."""

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        self._columns: Schema = table.physical.select(tuple(names))
        if not names:
            return
        is_json = table.options.get("format") == "json"
        self._encoder = (
            encoder_of(table, self._columns)
            if is_json and "json.encode.ignore-null-fields" not in table.options
            else get_format("json").encoder(self._columns, {})
        )

    def of(self, rows: Batch) -> list[Values]:
        """Returns the values of each row by column."""
        columns = [rows.column(c.name) for c in self._columns]
        lines = self._encoder.encode(rows.with_columns(self._columns, columns))
        return [_ROW.decode(line) for line in lines.to_pylist()]
