"""Encoding rows in Avro's binary form, each as one datum without a schema."""

from __future__ import annotations

import pyarrow as pa

from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.formats.avro.schemas import parse_schema
from sqlengine.formats.avro.writers import Structs


class BinaryEncoder:
    """Writes rows of a table, all of a batch at once."""

    def __init__(self, schema: Schema, text: str) -> None:
        """BadSchema where the schema cannot hold rows of the table."""
        self._writer = Structs("", parse_schema(text), {c.name: c.type for c in schema})

    def encode(self, batch: Batch) -> pa.Array:
        """See `Encoder`. ExecutionError for a row that the schema cannot hold."""
        return self._writer.write_columns(batch.columns, batch.num_rows)
