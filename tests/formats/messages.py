"""Descriptors of the messages that tests of protobuf use, as protoc would make them."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from sqlengine.formats.protobuf.descriptors import to_base64

_TYPES = {name.removeprefix("TYPE_").lower(): number for name, number in FieldDescriptorProto.Type.items()}  # fmt: skip


def _field(message: DescriptorProto, number: int, text: str) -> None:
    """Adds a field: 'repeated int32 name', 'map string Inner name', 'optional .pkg.Kind name'."""
    *label, kind, name = text.split()
    optional = "optional" in label
    field = message.field.add(name=name, number=number, label=1)
    if "repeated" in label:
        field.label = FieldDescriptorProto.LABEL_REPEATED
    if kind in _TYPES:
        field.type = _TYPES[kind]
    else:
        field.type_name = kind
    if optional:
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def _map(message: DescriptorProto, number: int, name: str, key: str, value: str) -> None:
    entry = message.nested_type.add(name=name.capitalize() + "Entry")
    entry.options.map_entry = True
    _field(entry, 1, f"{key} key")
    _field(entry, 2, f"{value} value")
    path = f".shop.{message.name}.{entry.name}"
    _field(message, number, f"repeated {path} {name}")


def _file(syntax: str) -> FileDescriptorProto:
    file = FileDescriptorProto(name=f"{syntax}/all_types.proto", package="shop", syntax=syntax)
    file.options.java_package = "com.example"
    kind = file.enum_type.add(name="Kind")
    for number, name in enumerate(["NONE", "ONE", "TWO"]):
        kind.value.add(name=name, number=number)
    inner = file.message_type.add(name="Inner")
    _field(inner, 1, "int64 v1")
    _field(inner, 2, "int32 v2")
    message = file.message_type.add(name="Order")
    message.oneof_decl.add(name="choice")
    if syntax == "proto3":
        file.dependency.append("google/protobuf/timestamp.proto")
        _field(message, 20, ".google.protobuf.Timestamp at")
        _field(message, 21, "optional int32 maybe")
    texts = (
        "int32 i", "uint32 u", "sint64 l", "fixed64 x", "double d", "float f", "bool o", "string s", "bytes b",
        ".shop.Kind k", ".shop.Kind n", ".shop.Inner r", "repeated sint32 a", "repeated .shop.Inner ra", "repeated .shop.Kind ka",
    )  # fmt: skip
    for number, text in enumerate(texts, 1):
        _field(message, number, text)
    _map(message, 30, "m", "string", "int64")
    _map(message, 31, "mr", "int64", ".shop.Inner")
    for number, name in ((40, "left"), (41, "right")):
        message.field.add(name=name, number=number, label=1, type=_TYPES["string"], oneof_index=0)
    return file


def descriptors(syntax: str = "proto3") -> bytes:
    """Returns the set of descriptors of 'shop.Order'."""
    return FileDescriptorSet(file=[_file(syntax)]).SerializeToString()


def options(syntax: str = "proto3", **more: str) -> dict[str, str]:
    """Returns the options of a table of orders."""
    named = {k.replace("_", "-"): v for k, v in more.items()}
    return {
        "message-class-name": "shop.Order",
        "descriptor": to_base64(descriptors(syntax)),
        **named,
    }


def order_class(syntax: str = "proto3") -> Any:
    """Returns the class of orders."""
    pool = DescriptorPool()
    if syntax == "proto3":
        from google.protobuf import timestamp_pb2

        pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.AddSerializedFile(_file(syntax).SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))
