"""The format 'protobuf': a record is a message of a class, which a set of descriptors describes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa

from parser.errors import ExecutionError, OptionError
from parser.types import Schema
from sqlengine.batch import Batch
from sqlengine.formats.base import (
    BadRecord,
    Decoded,
    Decoder,
    Encoder,
    Format,
    FormatCapabilities,
    Option,
    OutOfReach,
    selected,
)
from sqlengine.formats.options import boolean, parse_options
from sqlengine.formats.protobuf.descriptors import from_base64, message_of, require_library
from sqlengine.formats.protobuf.fields import Field, field_of
from sqlengine.formats.protobuf.proto_text import descriptor_set
from sqlengine.formats.protobuf.proto_tokens import BadProto
from sqlengine.formats.protobuf.reading import reader_of
from sqlengine.formats.protobuf.writing import converter, plain_values
from sqlengine.system.file_access import FileAccess

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message

_FILE: Final = "descriptor-file"
_MOST_BYTES: Final = 64 << 20
# The sets of descriptors that tables have been opened with in this process, by their files.
_files: dict[str, bytes] = {}


class ProtobufFormat(Format):
    """Flink's, with descriptors instead of classes of Java."""

    name: ClassVar[str] = "protobuf"
    capabilities: ClassVar[FormatCapabilities] = FormatCapabilities(line_separated=False)
    options: ClassVar[Mapping[str, Option]] = {
        "message-class-name": Option(
            required=True, doc="the message's name, or that of its class in Java"
        ),
        "descriptor": Option(
            from_base64, doc="what protoc --include_imports --descriptor_set_out writes, in Base64"
        ),
        _FILE: Option(doc="a file with it, or a .proto file, instead"),
        "ignore-parse-errors": Option(boolean, default="false", doc="bad records are skipped"),
        "read-default-values": Option(
            boolean, default="false", doc="a field that is missing is its default, and not NULL"
        ),
        "write-null-string-literal": Option(
            default="", doc="a text that is NULL in an array or a map"
        ),
    }

    def decoder(
        self,
        schema: Schema,
        options: Mapping[str, str],
        columns: Sequence[str] | None = None,
        metadata: Sequence[str] = (),
    ) -> Decoder:
        """See `Format`."""
        values = self._values(options)
        wanted = selected(schema, columns)
        lenient = bool(values["ignore-parse-errors"])

        def made() -> _MessageDecoder:
            message = _message(values)
            _fields(message, schema)
            defaults = bool(values["read-default-values"])
            return _MessageDecoder(message, _fields(message, wanted), defaults, lenient=lenient)

        known = values[_FILE] is None or str(values[_FILE]) in _files
        return made() if known else _Later(made)

    def encoder(self, schema: Schema, options: Mapping[str, str]) -> Encoder:
        values = self._values(options)
        message = _message(values)
        return _MessageEncoder(
            message, _fields(message, schema), str(values["write-null-string-literal"])
        )

    def connect(
        self, options: Mapping[str, str], filled: Mapping[str, str], files: FileAccess
    ) -> None:
        """See `Format`: reads the file of descriptors."""
        if _FILE in options:
            _files[options[_FILE]] = _descriptors(options[_FILE], files)

    def _values(self, options: Mapping[str, str]) -> dict[str, object]:
        require_library()
        values = parse_options(options, self.options, f"format '{self.name}'")
        if (values["descriptor"] is None) == (values[_FILE] is None):
            raise OptionError(
                f"format '{self.name}' needs one of the options 'descriptor' and '{_FILE}'",
                subject="descriptor",
            )
        return values


def _read(path: str, files: FileAccess) -> bytes:
    try:
        data = files.read(Path(path))
    except OSError as error:
        raise OptionError(
            f"the file '{path}' of descriptors cannot be read",
            detail=error.strerror,
            subject=_FILE,
        ) from None
    if len(data) > _MOST_BYTES:
        raise OptionError(f"the file '{path}' is too long to be one of descriptors", subject=_FILE)
    return data


def _descriptors(path: str, files: FileAccess) -> bytes:
    """Returns the set of descriptors in a file, or that of a .proto file and of those that it
    imports, by their paths from its folder. OptionError where it is none."""
    data = _read(path, files)
    if not path.endswith(".proto"):
        return data
    folder = Path(path).parent

    def imported(name: str) -> str | None:
        found = folder / name
        return _text(_read(str(found), files)) if found.exists() else None

    try:
        return descriptor_set(_text(data), Path(path).name, imported)
    except BadProto as error:
        message = f"the file '{path}' is no .proto file"
        raise OptionError(message, detail=str(error), subject=_FILE) from None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _message(values: Mapping[str, object]) -> Descriptor:
    """Returns the message of a table. OutOfReach where its file has not been read here."""
    data = values["descriptor"]
    if data is None:
        data = _files.get(str(values[_FILE]))
    if data is None:
        raise OutOfReach(
            f"the file '{values[_FILE]}' of descriptors has not been read in this process",
            hint="'protobuf.descriptor' has it in the table itself",
        )
    assert isinstance(data, bytes)
    return message_of(data, str(values["message-class-name"]))


def _fields(message: Descriptor, schema: Schema) -> list[Field]:
    return [field_of(message, column.name, column.type) for column in schema]


def _class_of(message: Descriptor) -> type[Message]:
    from google.protobuf.message_factory import GetMessageClass

    found: type[Message] = GetMessageClass(message)
    return found


class _Later:
    """A decoder that is made with its first records: its descriptors are read when its table is
    opened."""

    def __init__(self, make: Callable[[], Decoder]) -> None:
        self._make = make
        self._made: Decoder | None = None

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`."""
        if self._made is None:
            self._made = self._make()
        return self._made.decode(records)


class _MessageDecoder:
    """Parses messages one by one, and reads their fields one after the other."""

    def __init__(
        self, message: Descriptor, fields: Sequence[Field], defaults: bool, *, lenient: bool
    ) -> None:
        self._parse: Callable[[bytes], Message] = _class_of(message).FromString
        self._readers = [reader_of(f, defaults=defaults) for f in fields]
        self._lenient = lenient

    def decode(self, records: pa.Array) -> Decoded:
        """See `Decoder`."""
        texts: list[bytes] = records.to_pylist()
        try:
            messages = [self._parse(text) for text in texts]
            return Decoded(self._columns(messages), len(messages))
        except Exception:  # noqa: BLE001  DecodeError, whose class is imported late
            return self._with_bad(texts)

    def _columns(self, messages: Sequence[Message]) -> tuple[pa.Array, ...]:
        return tuple(read(messages) for read in self._readers)

    def _with_bad(self, texts: Sequence[bytes]) -> Decoded:
        from google.protobuf.message import DecodeError

        messages: list[Message] = []
        rows: list[int] = []
        bad: list[BadRecord] = []
        for row, text in enumerate(texts):
            try:
                message = self._parse(text)
                self._columns([message])
            except DecodeError as error:
                bad.append(BadRecord(row, f"it is no message: {error}"))
            except (ValueError, TypeError, OverflowError, pa.ArrowException) as error:
                bad.append(BadRecord(row, f"it has a value that no column can hold: {error}"))
            else:
                messages.append(message)
                rows.append(row)
        told = () if self._lenient else tuple(bad)
        return Decoded(self._columns(messages), len(messages), np.array(rows, np.int64), told)


class _MessageEncoder:
    """Writes rows; a column that is NULL is not in the message."""

    def __init__(self, message: Descriptor, fields: Sequence[Field], null_text: str) -> None:
        self._class = _class_of(message)
        self._fields = [(f, converter(f, null_text)) for f in fields]

    def encode(self, batch: Batch) -> pa.Array:
        """See `Encoder`. ExecutionError for a value that the message cannot hold."""
        rows: list[dict[str, object]] = [{} for _ in range(batch.num_rows)]
        for (field, convert), column in zip(self._fields, batch.columns, strict=True):
            for row, value in zip(rows, plain_values(column, field), strict=True):
                if value is not None:
                    row[field.name] = convert(value)
        return pa.array([self._written(row) for row in rows], pa.binary())

    def _written(self, row: dict[str, object]) -> bytes:
        from google.protobuf.message import EncodeError

        try:
            message = self._class(**row)
            data: bytes = message.SerializeToString(deterministic=True)
        except (ValueError, TypeError, EncodeError) as error:
            name = self._class.DESCRIPTOR.full_name
            raise ExecutionError(f"message '{name}' cannot hold a row", detail=str(error)) from None
        return data
