"""The fields of messages that columns are, and whether the types fit as they do in Flink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from parser.errors import ColumnError
from parser.types import DataType, Root
from sqlengine.formats.options import did_you_mean

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

# The numbers of FieldDescriptor.CPPTYPE_…, which are part of protobuf's interface.
INT32, INT64, UINT32, UINT64, DOUBLE, FLOAT, BOOL, ENUM, STRING, MESSAGE = range(1, 11)
_BYTES_TYPE: Final = 12
_INTEGERS: Final = (Root.TINYINT, Root.SMALLINT, Root.INT, Root.BIGINT)
_FITTING: Final = {
    INT32: (Root.INT, Root.BIGINT),
    UINT32: (Root.INT, Root.BIGINT),
    INT64: (Root.BIGINT,),
    UINT64: (Root.BIGINT,),
    DOUBLE: (Root.DOUBLE,),
    FLOAT: (Root.FLOAT, Root.DOUBLE),
    BOOL: (Root.BOOLEAN,),
    ENUM: (Root.CHAR, Root.VARCHAR, *_INTEGERS),
    STRING: (Root.CHAR, Root.VARCHAR),
}
_TIMESTAMP: Final = "google.protobuf.Timestamp"


@dataclass(frozen=True)
class Field:
    """A field of a message as a column: `kind` is the column's type, `form` one of the numbers
    above (`binary`: bytes and no text). `present`: messages know whether they have it. `inner`: the
    fields of a message; the element of a `repeated` field; the key and value of a map."""

    name: str
    kind: DataType
    form: int
    binary: bool = False
    repeated: bool = False
    mapped: bool = False
    present: bool = False
    inner: tuple[Field, ...] = ()
    enum: tuple[tuple[int, str], ...] = ()

    @property
    def is_instant(self) -> bool:
        """True for a google.protobuf.Timestamp in a column of timestamps."""
        return self.form == MESSAGE and self.kind.is_timestamp


def field_of(message: Descriptor, name: str, kind: DataType, path: str = "") -> Field:
    """Returns the field of a column. PlanError where the message has none, or of another type."""
    found = message.fields_by_name.get(name)
    if found is None:
        raise ColumnError(
            f"column '{path}{name}' is no field of message '{message.full_name}'",
            hint=did_you_mean(name, list(message.fields_by_name)),
            subject=f"{path}{name}".partition(".")[0],
        )
    if not _is_repeated(found):
        return _single(found, kind, path)
    entry = found.message_type
    if entry is not None and _is_map(found):
        if kind.root is not Root.MAP:
            raise _mismatch(found, kind, path)
        parts = tuple(
            _single(entry.fields_by_name[part], child, f"{path}{name}.")
            for part, child in zip(("key", "value"), kind.children, strict=True)
        )
        return Field(name, kind, MESSAGE, repeated=True, mapped=True, inner=parts)
    if kind.root is not Root.ARRAY:
        raise _mismatch(found, kind, path)
    element = _single(found, kind.children[0], path)
    return Field(name, kind, element.form, repeated=True, inner=(element,))


def _is_repeated(field: FieldDescriptor) -> bool:
    return bool(field.is_repeated)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _single(field: FieldDescriptor, kind: DataType, path: str) -> Field:
    """Returns the field, or one element of it."""
    form, name, present = field.cpp_type, field.name, bool(field.has_presence)
    if field.message_type is not None:
        return _message(field, field.message_type, kind, path, present)
    binary = field.type == _BYTES_TYPE
    fits = kind.is_binary if binary else kind.root in _FITTING[form]
    if not fits:
        raise _mismatch(field, kind, path)
    symbols = () if field.enum_type is None else field.enum_type.values
    enum = tuple((s.number, s.name) for s in symbols)
    return Field(name, kind, form, binary, present=present, enum=enum)


def _message(
    field: FieldDescriptor, message: Descriptor, kind: DataType, path: str, present: bool
) -> Field:
    if kind.is_timestamp and message.full_name == _TIMESTAMP:
        return Field(field.name, kind, MESSAGE, present=present)
    if kind.root is not Root.ROW or _is_map(field):
        raise _mismatch(field, kind, path)
    inner = tuple(
        field_of(message, name, child, f"{path}{field.name}.")
        for name, child in zip(kind.names, kind.children, strict=True)
    )
    return Field(field.name, kind, MESSAGE, present=present, inner=inner)


_FORMS: Final = {
    INT32: "int32",
    INT64: "int64",
    UINT32: "uint32",
    UINT64: "uint64",
    DOUBLE: "double",
    FLOAT: "float",
    BOOL: "bool",
    ENUM: "an enum",
    STRING: "string",
    MESSAGE: "a message",
}


def _mismatch(field: FieldDescriptor, kind: DataType, path: str) -> ColumnError:
    form = "bytes" if field.type == _BYTES_TYPE else _FORMS[field.cpp_type]
    many = "a map" if _is_map(field) else f"repeated {form}" if _is_repeated(field) else form
    return ColumnError(
        f"column '{path}{field.name}' is {kind.plain}, and its field is {many}",
        subject=f"{path}{field.name}".partition(".")[0],
    )
