"""The format 'avro': records that are one datum of the table's schema each, and files that hold
their own (object container files)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final

from parser.types import Schema
from sqlengine.formats.avro.container import ContainerReader, ContainerWriter
from sqlengine.formats.avro.decoder import BinaryDecoder
from sqlengine.formats.avro.derived import schema_of
from sqlengine.formats.avro.encoder import BinaryEncoder
from sqlengine.formats.avro.json_encoding import JsonDecoder, JsonEncoder
from sqlengine.formats.base import (
    Decoder,
    Encoder,
    FileReader,
    FileWriter,
    Format,
    FormatCapabilities,
    Option,
    selected,
)
from sqlengine.formats.options import boolean, choice, parse_options

BINARY: Final = "binary"
ENCODING: Final = Option(choice(BINARY, "json"), default=BINARY, doc="of records, not of files")
LEGACY: Final = Option(
    boolean,
    default="true",
    doc="TIMESTAMP is timestamp-millis; 'false': local-timestamp, and TIMESTAMP_LTZ timestamp",
)


class AvroFormat(Format):
    """Flink's. The schema of records is derived from the table; that of a file stands in it."""

    name: ClassVar[str] = "avro"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(
        bulk=True, records=True, line_separated=False
    )
    options: ClassVar[Mapping[str, Option]] = {
        "encoding": ENCODING,
        "timestamp_mapping.legacy": LEGACY,
        "codec": Option(
            choice("null", "deflate", "snappy", "bzip2", "xz"), default="snappy", doc="of files"
        ),
    }

    def decoder(
        self,
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
        metadata: Sequence[str] = (),
    ) -> Decoder:
        values = parse_options(options, self.options, "format 'avro'")
        text = schema_of(schema, legacy=bool(values["timestamp_mapping.legacy"]))
        decoder = BinaryDecoder(selected(schema, columns), text)
        return decoder if values["encoding"] == BINARY else JsonDecoder(decoder)

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        values = parse_options(options, self.options, "format 'avro'")
        text = schema_of(schema, legacy=bool(values["timestamp_mapping.legacy"]))
        encoder = BinaryEncoder(schema, text)
        return encoder if values["encoding"] == BINARY else JsonEncoder(encoder, text)

    def check(self, schema: Schema, options: Mapping[str, str]) -> None:
        self.encoder(schema, options)

    def reader(
        self, path: Path, file: int, schema: Schema, options: Mapping[str, str]
    ) -> FileReader:
        return ContainerReader(path, file, schema)

    def writer(self, schema: Schema, options: Mapping[str, str]) -> FileWriter:
        values = parse_options(options, self.options, "format 'avro'")
        text = schema_of(schema, legacy=bool(values["timestamp_mapping.legacy"]))
        return ContainerWriter(schema, text, str(values["codec"]))
