"""The text of .proto files (proto2 and proto3) as descriptors. Services, extensions and options
that change nothing about records are left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sqlengine.formats.protobuf.proto_tokens import Tokens

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )

_LABELS: Final = {"optional": 1, "required": 2, "repeated": 3}
_TYPES: Final = {
    name: number
    for number, name in enumerate(
        "double float int64 uint64 int32 fixed64 fixed32 bool string group message bytes uint32"
        " enum sfixed32 sfixed64 sint32 sint64".split(),
        1,
    )
    if name not in ("group", "message", "enum")
}
_DEEPEST: Final = 64


def parse_proto(text: str, name: str) -> FileDescriptorProto:
    """Returns the descriptor of a file. BadProto for a text that is none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name=name, syntax="proto2")
    _Parser(text).file(file)
    if file.syntax == "proto2":
        file.ClearField("syntax")
    return file


class _Parser(Tokens):
    """Reads definitions, one after the other."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._new = False

    def file(self, file: FileDescriptorProto) -> None:
        """Reads a whole file."""
        while self.peek():
            match word := self.next():
                case "syntax":
                    self.expect("=")
                    file.syntax = self.string()
                    if file.syntax not in ("proto2", "proto3"):
                        raise self.bad(0, f"syntax '{file.syntax[:20]}' is not known")
                    self._new = file.syntax == "proto3"
                    self.expect(";")
                case "package":
                    file.package = self.name()
                    self.expect(";")
                case "import":
                    self._import(file)
                case "option":
                    self._file_option(file)
                case "message":
                    self._message(file.message_type.add())
                case "enum":
                    self._enum(file.enum_type.add())
                case "service" | "extend":
                    self.name()
                    self._skip_block()
                case ";":
                    pass
                case _:
                    raise self.unexpected(word)

    def _import(self, file: FileDescriptorProto) -> None:
        if self.accept("public"):
            file.public_dependency.append(len(file.dependency))
        else:
            self.accept("weak")
        file.dependency.append(self.string())
        self.expect(";")

    def _file_option(self, file: FileDescriptorProto) -> None:
        name, value = self._option()
        match name:
            case "java_package":
                file.options.java_package = value
            case "java_outer_classname":
                file.options.java_outer_classname = value
            case "java_multiple_files":
                file.options.java_multiple_files = value == "true"

    def _option(self) -> tuple[str, str]:
        """Reads the name and the value of an option, up to its end."""
        name = self._option_name()
        self.expect("=")
        value = self._value()
        self.expect(";")
        return name, value

    def _option_name(self) -> str:
        parts = []
        while self.peek() != "=":
            parts.append(self.next())
        return "".join(parts)

    def _value(self) -> str:
        if self.peek() == "{":
            self._skip_block()
            return ""
        if self.peek()[:1] in ('"', "'"):
            return self.string()
        sign = "-" if self.accept("-") else ""
        return sign + self.next()

    def _skip_block(self) -> None:
        self.expect("{")
        depth = 1
        while depth:
            token = self.next()
            depth += (token == "{") - (token == "}")

    def _skip_statement(self) -> None:
        while self.next() != ";":
            pass

    def _message(self, message: DescriptorProto) -> None:
        message.name = self.name()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self.bad(0, "messages are nested too deeply")
        self.expect("{")
        optional: list[FieldDescriptorProto] = []
        while not self.accept("}"):
            self._element(message, optional)
        for field in optional:  # behind what was written: an order that descriptors must have
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
        self._depth -= 1

    def _element(self, message: DescriptorProto, optional: list[FieldDescriptorProto]) -> None:
        match self.next():
            case ";":
                return
            case "message" if self._is_block():
                self._message(message.nested_type.add())
            case "enum" if self._is_block():
                self._enum(message.enum_type.add())
            case "oneof" if self._is_block():
                self._oneof(message)
            case "extend":
                self.name()
                self._skip_block()
            case "option" if self.peek() != "=" and self._looks_like_option():
                self._option()
            case "reserved" | "extensions":
                self._skip_statement()
            case "map" if self.peek() == "<":
                self._map(message)
            case word:
                self.at -= 1
                field = self._field(message, word)
                if field.proto3_optional:
                    optional.append(field)

    def _is_block(self) -> bool:
        """True if a name and a block come next, and not the name of a field of such a type."""
        return self.at + 1 < len(self.tokens) and self.tokens[self.at + 1][0] == "{"

    def _looks_like_option(self) -> bool:
        following = [t for t, _ in self.tokens[self.at : self.at + 2]]
        return following[:1] == ["("] or following[1:] == ["="] or following[1:] == ["."]

    def _field(self, message: DescriptorProto, word: str) -> FieldDescriptorProto:
        field = message.field.add(label=1)
        if word in _LABELS:
            self.next()
            field.label = _LABELS[word]  # type: ignore[assignment]
            field.proto3_optional = self._new and word == "optional"
        elif not self._new:
            raise self.unexpected(self.next())
        self._typed(field)
        field.name = self.name()
        self._numbered(field)
        return field

    def _typed(self, field: FieldDescriptorProto) -> None:
        name = self.name()
        if name == "group":
            raise self.bad(self.tokens[self.at - 1][1], "groups are not supported")
        if name in _TYPES:
            field.type = _TYPES[name]  # type: ignore[assignment]
        else:
            field.type_name = name

    def _numbered(self, field: FieldDescriptorProto) -> None:
        """Reads the number of a field, its options and its end."""
        self.expect("=")
        field.number = self.number()
        if self.accept("["):
            while True:
                name = self._option_name()
                self.expect("=")
                value = self._value()
                if name == "default":
                    field.default_value = value
                elif name == "packed":
                    field.options.packed = value == "true"
                if not self.accept(","):
                    break
            self.expect("]")
        self.expect(";")

    def _oneof(self, message: DescriptorProto) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self.name())
        self.expect("{")
        while not self.accept("}"):
            if self.accept("option"):
                self._option()
                continue
            field = message.field.add(label=1, oneof_index=index)
            self._typed(field)
            field.name = self.name()
            self._numbered(field)

    def _map(self, message: DescriptorProto) -> None:
        self.expect("<")
        entry = message.nested_type.add()
        entry.options.map_entry = True
        for number, name in enumerate(("key", "value"), 1):
            part = entry.field.add(name=name, number=number, label=1)
            self._typed(part)
            self.expect("," if name == "key" else ">")
        field = message.field.add(label=3, name=self.name())
        parts = field.name.split("_")
        entry.name = "".join(p[:1].upper() + p[1:] for p in parts) + "Entry"
        field.type_name = entry.name
        self._numbered(field)

    def _enum(self, enum: EnumDescriptorProto) -> None:
        enum.name = self.name()
        self.expect("{")
        while not self.accept("}"):
            if self.accept(";"):
                continue
            word = self.name()
            if word == "option" and self.peek() != "=":
                name, value = self._option()
                if name == "allow_alias":
                    enum.options.allow_alias = value == "true"
            elif word == "reserved" and self.peek() != "=":
                self._skip_statement()
            else:
                self.expect("=")
                enum.value.add(name=word, number=self._signed())
                self._options_of_value()

    def _signed(self) -> int:
        sign = -1 if self.accept("-") else 1
        return sign * self.number()

    def _options_of_value(self) -> None:
        if self.accept("["):
            while self.next() != "]":
                pass
        self.expect(";")


# Reads an imported file by its name; None where there is none.
Imports = Callable[[str], str | None]


def descriptor_set(text: str, name: str, imported: Imports) -> bytes:
    """Returns the set of descriptors of a file and all that it imports. BadProto for a text that is
    no .proto file."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    files = {name: parse_proto(text, name)}
    waiting = list(files[name].dependency)
    while waiting:
        other = waiting.pop()
        found = None if other in files or other.startswith("google/protobuf/") else imported(other)
        if found is not None:
            files[other] = parse_proto(found, other)
            waiting += files[other].dependency
    return FileDescriptorSet(file=files.values()).SerializeToString()
