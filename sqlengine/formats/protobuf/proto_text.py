"""The text of .proto files (proto2 and proto3) as descriptors. Services, extensions and options
that change nothing about records are left out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
    )

_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
      | (?P<token> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
          | [+-]?(?:0[xX][0-9a-fA-F]+ | [0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)? | inf\b | nan\b)
          | \.?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)* | [{}()\[\]<>=;,:.+-] )
    """,
    re.VERBOSE | re.DOTALL,
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
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|([0-7]{1,3})|(.))", re.DOTALL)
_SIGNS: Final = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_DEEPEST: Final = 64


class BadProto(Exception):
    """A text that is no .proto file, with the line and the reason in words."""


def parse_proto(text: str, name: str) -> FileDescriptorProto:
    """Returns the descriptor of a file. BadProto for a text that is none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name=name, syntax="proto2")
    _Parser(text).file(file)
    if file.syntax == "proto2":
        file.ClearField("syntax")
    return file


class _Parser:
    """Reads tokens one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, int]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self._bad(at, f"unexpected {text[at]!r}")
            if match["token"] is not None:
                self._tokens.append((match["token"], at))
            at = match.end()
        self._at = self._depth = 0
        self._new = False

    def _bad(self, at: int, reason: str) -> BadProto:
        return BadProto(f"line {self._text.count(chr(10), 0, at) + 1}: {reason}")

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise self._bad(len(self._text), "it ends too early")
        self._at += 1
        return self._tokens[self._at - 1][0]

    def _unexpected(self, token: str) -> BadProto:
        return self._bad(self._tokens[self._at - 1][1], f"unexpected '{token}'")

    def _expect(self, wanted: str) -> None:
        token = self._next()
        if token != wanted:
            raise self._unexpected(token)

    def _accept(self, wanted: str) -> bool:
        if self._peek() != wanted:
            return False
        self._at += 1
        return True

    def _name(self) -> str:
        token = self._next()
        if not re.fullmatch(r"\.?[A-Za-z_][A-Za-z0-9_.]*", token):
            raise self._unexpected(token)
        return token

    def _number(self) -> int:
        token = self._next()
        try:
            return int(token, 0) if not re.fullmatch(r"0[0-7]+", token) else int(token, 8)
        except ValueError:
            raise self._unexpected(token) from None

    def _string(self) -> str:
        token = self._next()
        if token[0] not in "\"'":
            raise self._unexpected(token)
        text = _ESCAPE.sub(_unescaped, token[1:-1])
        return text + self._string() if self._peek()[:1] in ('"', "'") else text

    def file(self, file: FileDescriptorProto) -> None:
        """Reads a whole file."""
        while self._peek():
            match word := self._next():
                case "syntax":
                    self._expect("=")
                    file.syntax = self._string()
                    if file.syntax not in ("proto2", "proto3"):
                        raise self._bad(0, f"syntax '{file.syntax[:20]}' is not known")
                    self._new = file.syntax == "proto3"
                    self._expect(";")
                case "package":
                    file.package = self._name()
                    self._expect(";")
                case "import":
                    self._import(file)
                case "option":
                    self._file_option(file)
                case "message":
                    self._message(file.message_type.add())
                case "enum":
                    self._enum(file.enum_type.add())
                case "service" | "extend":
                    self._name()
                    self._skip_block()
                case ";":
                    pass
                case _:
                    raise self._unexpected(word)

    def _import(self, file: FileDescriptorProto) -> None:
        if self._accept("public"):
            file.public_dependency.append(len(file.dependency))
        else:
            self._accept("weak")
        file.dependency.append(self._string())
        self._expect(";")

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
        self._expect("=")
        value = self._value()
        self._expect(";")
        return name, value

    def _option_name(self) -> str:
        parts = []
        while self._peek() != "=":
            parts.append(self._next())
        return "".join(parts)

    def _value(self) -> str:
        if self._peek() == "{":
            self._skip_block()
            return ""
        if self._peek()[:1] in ('"', "'"):
            return self._string()
        sign = "-" if self._accept("-") else ""
        return sign + self._next()

    def _skip_block(self) -> None:
        self._expect("{")
        depth = 1
        while depth:
            token = self._next()
            depth += (token == "{") - (token == "}")

    def _skip_statement(self) -> None:
        while self._next() != ";":
            pass

    def _message(self, message: DescriptorProto) -> None:
        message.name = self._name()
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._bad(0, "messages are nested too deeply")
        self._expect("{")
        optional: list[FieldDescriptorProto] = []
        while not self._accept("}"):
            self._element(message, optional)
        for field in optional:  # behind what was written: an order that descriptors must have
            field.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{field.name}")
        self._depth -= 1

    def _element(self, message: DescriptorProto, optional: list[FieldDescriptorProto]) -> None:
        match self._next():
            case ";":
                return
            case "message" if self._is_block():
                self._message(message.nested_type.add())
            case "enum" if self._is_block():
                self._enum(message.enum_type.add())
            case "oneof" if self._is_block():
                self._oneof(message)
            case "extend":
                self._name()
                self._skip_block()
            case "option" if self._peek() != "=" and self._looks_like_option():
                self._option()
            case "reserved" | "extensions":
                self._skip_statement()
            case "map" if self._peek() == "<":
                self._map(message)
            case word:
                self._at -= 1
                field = self._field(message, word)
                if field.proto3_optional:
                    optional.append(field)

    def _is_block(self) -> bool:
        """True if a name and a block come next, and not the name of a field of such a type."""
        return self._at + 1 < len(self._tokens) and self._tokens[self._at + 1][0] == "{"

    def _looks_like_option(self) -> bool:
        following = [t for t, _ in self._tokens[self._at : self._at + 2]]
        return following[:1] == ["("] or following[1:] == ["="] or following[1:] == ["."]

    def _field(self, message: DescriptorProto, word: str) -> FieldDescriptorProto:
        field = message.field.add(label=1)
        if word in _LABELS:
            self._next()
            field.label = _LABELS[word]  # type: ignore[assignment]
            field.proto3_optional = self._new and word == "optional"
        elif not self._new:
            raise self._unexpected(self._next())
        self._typed(field)
        field.name = self._name()
        self._numbered(field)
        return field

    def _typed(self, field: FieldDescriptorProto) -> None:
        name = self._name()
        if name == "group":
            raise self._bad(self._tokens[self._at - 1][1], "groups are not supported")
        if name in _TYPES:
            field.type = _TYPES[name]  # type: ignore[assignment]
        else:
            field.type_name = name

    def _numbered(self, field: FieldDescriptorProto) -> None:
        """Reads the number of a field, its options and its end."""
        self._expect("=")
        field.number = self._number()
        if self._accept("["):
            while True:
                name = self._option_name()
                self._expect("=")
                value = self._value()
                if name == "default":
                    field.default_value = value
                elif name == "packed":
                    field.options.packed = value == "true"
                if not self._accept(","):
                    break
            self._expect("]")
        self._expect(";")

    def _oneof(self, message: DescriptorProto) -> None:
        index = len(message.oneof_decl)
        message.oneof_decl.add(name=self._name())
        self._expect("{")
        while not self._accept("}"):
            if self._accept("option"):
                self._option()
                continue
            field = message.field.add(label=1, oneof_index=index)
            self._typed(field)
            field.name = self._name()
            self._numbered(field)

    def _map(self, message: DescriptorProto) -> None:
        self._expect("<")
        entry = message.nested_type.add()
        entry.options.map_entry = True
        for number, name in enumerate(("key", "value"), 1):
            part = entry.field.add(name=name, number=number, label=1)
            self._typed(part)
            self._expect("," if name == "key" else ">")
        field = message.field.add(label=3, name=self._name())
        parts = field.name.split("_")
        entry.name = "".join(p[:1].upper() + p[1:] for p in parts) + "Entry"
        field.type_name = entry.name
        self._numbered(field)

    def _enum(self, enum: EnumDescriptorProto) -> None:
        enum.name = self._name()
        self._expect("{")
        while not self._accept("}"):
            if self._accept(";"):
                continue
            word = self._name()
            if word == "option" and self._peek() != "=":
                name, value = self._option()
                if name == "allow_alias":
                    enum.options.allow_alias = value == "true"
            elif word == "reserved" and self._peek() != "=":
                self._skip_statement()
            else:
                self._expect("=")
                enum.value.add(name=word, number=self._signed())
                self._options_of_value()

    def _signed(self) -> int:
        sign = -1 if self._accept("-") else 1
        return sign * self._number()

    def _options_of_value(self) -> None:
        if self._accept("["):
            while self._next() != "]":
                pass
        self._expect(";")


def _unescaped(match: re.Match[str]) -> str:
    if match[1] is not None:
        return chr(int(match[1], 16))
    if match[2] is not None:
        return chr(int(match[2], 8))
    return _SIGNS.get(match[3], match[3])


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
