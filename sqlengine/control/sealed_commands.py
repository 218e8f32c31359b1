"""Commands with passwords in their texts: the record that is kept has masks, and names the text,
which the private store has until the command was executed."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import msgspec

from sqlengine.broker.remote.wire import Append, AppendAll, Request
from sqlengine.broker.storage.codec import check, encode
from sqlengine.broker.topic_access import COMMANDS
from sqlengine.config import Config
from sqlengine.connectors.plain_secrets import masked, plain_values
from sqlengine.system.sealed_values import SealedValues

# The member of a command that names its text.
SEALED: Final = "sealed"


def command_texts(config: Config) -> SealedValues:
    """Returns the store of the texts of commands."""
    return SealedValues(config.sealed_folder / "commands")


def seal_commands(texts: SealedValues, lines: bytes) -> bytes:
    """Returns records for the command topic, a line each, without passwords. ServiceError where
    their texts cannot be kept."""
    return b"\n".join(_sealed(texts, line) for line in lines.split(b"\n"))


def seal_appends(texts: SealedValues, asked: Request) -> Request:
    """Returns a request to the broker with its commands as `seal_commands` returns them."""
    match asked:
        case AppendAll():
            return AppendAll(tuple(_sealed_append(texts, append) for append in asked.appends))
        case Append():
            return _sealed_append(texts, asked)
    return asked


def _sealed_append(texts: SealedValues, append: Append) -> Append:
    if append.topic != COMMANDS:
        return append
    parts = check(append.payload)
    values = [None if v is None else _sealed(texts, v) for v in parts.values.to_pylist()]
    keys = None if parts.keys is None else parts.keys.to_pylist()
    return msgspec.structs.replace(append, payload=encode(values, keys))


def _sealed(texts: SealedValues, line: bytes) -> bytes:
    command: object = None
    with suppress(msgspec.MsgspecError, RecursionError):
        command = msgspec.json.decode(line)
    if not isinstance(command, dict):
        return line
    text = command.get("sql")
    given = command.pop(SEALED, None)  # it is ours to say
    if not isinstance(text, str) or not plain_values(text):
        return line if given is None else msgspec.json.encode(command)
    return msgspec.json.encode({**command, "sql": masked(text), SEALED: texts.keep_once(text)})
