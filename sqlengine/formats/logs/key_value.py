"""The format 'key-value': a record is a line such as `user=ann action="log in"`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from sqlengine.formats.base import Option
from sqlengine.formats.logs.base import LENIENT, BadLine, LogFormat, Parse, each_line
from udf.text.log_parsing import key_values


def delimiter(text: str) -> str:
    """Parses a text between pairs. ValueError for an empty one."""
    if not text:
        raise ValueError("expected at least one character")
    return text.replace("\\t", "\t").replace("\\n", "\n")


class KeyValueFormat(LogFormat):
    """An extension, with the rules of the function KEYVALUE."""

    name: ClassVar[str] = "key-value"
    rest: ClassVar[str] = "fields"
    options: ClassVar[Mapping[str, Option]] = {
        "pair-delimiter": Option(delimiter, default=" ", doc="between pairs"),
        "key-delimiter": Option(delimiter, default="=", doc="between a key and its value"),
        "rest-column": Option(default="fields", doc="a MAP of what is no column"),
        "ignore-parse-errors": LENIENT,
    }

    def parse(self, values: Mapping[str, object]) -> Parse:
        """See `LogFormat`."""
        between, inside = str(values["pair-delimiter"]), str(values["key-delimiter"])

        def line(text: str) -> Mapping[str, str]:
            pairs = dict(key_values(text.rstrip("\r\n"), between, inside))
            if not pairs:
                raise BadLine("there is no pair in it")
            return pairs

        return each_line(line)
