"""Descriptors of protobuf messages: from a set of descriptors, as protoc writes it, to a message by
the name of its class."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Final

from parser.errors import OptionError, UnsupportedError
from sqlengine.formats.options import did_you_mean

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

_OWN: Final = [
    f"google/protobuf/{name}.proto"
    for name in ("any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")
]
_MADE: Final = "protoc --include_imports --descriptor_set_out=FILE …"


def require_library() -> None:
    """Raises UnsupportedError where protobuf is not installed."""
    try:
        import_module("google.protobuf")
    except ImportError:
        raise UnsupportedError(
            "format 'protobuf' needs the package protobuf", hint="pip install 'sqlengine[protobuf]'"
        ) from None


def from_base64(text: str) -> bytes:
    """Parses the text of an option. ValueError where it is no Base64."""
    try:
        return binascii.a2b_base64("".join(text.split()).encode("ascii"), strict_mode=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("expected a set of descriptors in Base64") from None


def to_base64(data: bytes) -> str:
    """Returns a set of descriptors as an option has it."""
    return base64.b64encode(data).decode()


def message_of(data: bytes, class_name: str) -> Descriptor:
    """Returns the message of a class from a set of descriptors. OptionError where the set is none,
    lacks what its files import, or has no such message."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import DecodeError

    try:
        found = FileDescriptorSet.FromString(data)
    except DecodeError:
        raise _no_set("it is no set of descriptors") from None
    files = {file.name: file for file in found.file}
    if not files:
        raise _no_set("it has no files")
    names = {name: full for file in files.values() for name, full in _names(file)}
    full = names.get(class_name, names.get(class_name.replace("$", ".")))
    if full is None:
        raise OptionError(
            f"'message-class-name' of format 'protobuf' names no message: '{class_name}'",
            hint=did_you_mean(class_name, names) or "messages: " + ", ".join(sorted(names)[:10]),
            subject="message-class-name",
        )
    pool = DescriptorPool()
    try:
        added: set[str] = set()
        for file in files.values():
            _add(pool, file, files, added)
        message: Descriptor = pool.FindMessageTypeByName(full)
    except (TypeError, KeyError) as error:
        raise _no_set(str(error)) from None
    return message


def _no_set(detail: str) -> OptionError:
    return OptionError(
        "the descriptors of format 'protobuf' cannot be read", detail=detail, hint=_MADE
    )


def _add(
    pool: DescriptorPool,
    file: FileDescriptorProto,
    files: dict[str, FileDescriptorProto],
    added: set[str],
) -> None:
    """Adds a file behind those that it imports; protobuf's own need not be in the set."""
    if file.name in added:
        return
    added.add(file.name)
    for name in file.dependency:
        imported = files.get(name) or _own(name)
        if imported is None:
            raise _no_set(f"'{file.name}' imports '{name}', which is not there")
        _add(pool, imported, files, added)
    pool.AddSerializedFile(file.SerializeToString())


def _own(name: str) -> FileDescriptorProto | None:
    """Returns a file that comes with protobuf."""
    from google.protobuf import descriptor_pool
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if name in _OWN:
        import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")  # it adds itself
    try:
        found = descriptor_pool.Default().FindFileByName(name)
    except KeyError:
        return None
    return FileDescriptorProto.FromString(found.serialized_pb)


def _names(file: FileDescriptorProto) -> Iterator[tuple[str, str]]:
    """Yields the names of the messages of a file, as protobuf and as Java has them, each with its
    full name."""
    prefix = f"{file.package}." if file.package else ""
    options = file.options
    package = options.java_package or file.package
    java = f"{package}." if package else ""
    if not options.java_multiple_files:
        java += f"{options.java_outer_classname or _outer(file)}$"
    for message in file.message_type:
        for path in _nested(message):
            full = prefix + ".".join(path)
            yield full, full
            yield java + "$".join(path), full


def _nested(message: DescriptorProto) -> Iterator[tuple[str, ...]]:
    yield (message.name,)
    for inner in message.nested_type:
        for path in _nested(inner):
            yield (message.name, *path)


def _outer(file: FileDescriptorProto) -> str:
    """Returns the name of the class that Java puts around messages."""
    stem = file.name.rpartition("/")[2].removesuffix(".proto")
    name = "".join(part[:1].upper() + part[1:] for part in stem.replace("-", "_").split("_"))
    return name + ("OuterClass" if any(m.name == name for m in file.message_type) else "")
