"""Topics as JSON, over HTTP and on a data folder that no server uses."""

from __future__ import annotations

import base64
import json
import math
import struct
from collections.abc import Callable, Collection, Mapping

from parser.errors import ServiceError
from parser.limits import bytes_text, present
from sqlengine.broker.base import Broker, Records, TopicInfo, TopicOptions, is_system
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.storage.compression import COMPRESSIONS, Compression
from sqlengine.system.sizes import moment_ms
from sqlengine.system.words import listed

Json = dict[str, object]

COMMANDS = "_commands"
RESULTS = "_command_results"
MAX_RECORDS = 10_000
MAX_WAIT_S = 1.0
_LIMITS = ("retention_ms", "retention_bytes", "delete_retention_ms", "max_bytes")
_CHANGES = (*_LIMITS, "compression")
_OPTIONS = ("name", "shards", "compacted", *_CHANGES, "if_not_exists")


class BadRequest(ServiceError):
    """A request that is invalid whatever topics there are."""

    title = "bad request"


def list_topics(broker: Broker, seen: Callable[[str], bool] = lambda _: True) -> Json:
    """Returns the topics whose names may be `seen`."""
    return {"topics": [topic_json(t) for t in broker.topics() if seen(t.name)]}


def create_topic(broker: Broker, asked: object) -> Json:
    """Creates a topic from {"name", "shards", "compacted", "if_not_exists"} and the options of
    `alter_topic`."""
    if not isinstance(asked, Mapping) or not isinstance(asked.get("name"), str):
        raise BadRequest('a topic needs a "name"', hint='send {"name": "events", "shards": 1}')
    name = str(asked["name"])
    _refuse_unknown(asked, _OPTIONS)
    refuse_system(name)
    shards = _number(asked, "shards")
    info = broker.create_topic(
        name,
        1 if shards is None else shards,
        compacted=_flag(asked, "compacted"),
        if_not_exists=_flag(asked, "if_not_exists"),
        **_changes(asked),
    )
    return topic_json(info)


def alter_topic(broker: Broker, name: str, asked: object) -> Json:
    """Changes {"retention_ms", "retention_bytes", "delete_retention_ms", "max_bytes",
    "compression"}.

    null removes a limit; options that are not named stay.
    """
    if not isinstance(asked, Mapping) or not asked:
        raise BadRequest("what is to change is missing", hint='send {"retention_ms": 86400000}')
    _refuse_unknown(asked, _CHANGES)
    refuse_system(name)
    return topic_json(broker.alter_topic(name, **_changes(asked)))


def _refuse_unknown(asked: Mapping[object, object], known: Collection[str]) -> None:
    unknown = sorted(str(k) for k in asked.keys() - set(known))
    if unknown:
        raise BadRequest(
            f"a topic has no option '{unknown[0][:60]}'", detail=f"options: {', '.join(known)}"
        )


def _changes(asked: Mapping[object, object]) -> TopicOptions:
    options = TopicOptions()
    if "retention_ms" in asked:
        options["retention_ms"] = _number(asked, "retention_ms")
    if "retention_bytes" in asked:
        options["retention_bytes"] = _number(asked, "retention_bytes")
    if "delete_retention_ms" in asked:
        options["delete_retention_ms"] = _number(asked, "delete_retention_ms")
    if "max_bytes" in asked:
        options["max_bytes"] = _number(asked, "max_bytes")
    if "compression" in asked:
        options["compression"] = _compression(asked["compression"])
    return options


def _compression(value: object) -> Compression:
    for known in COMPRESSIONS:
        if value == known:
            return known
    raise BadRequest(
        f"'compression' must be one of {', '.join(COMPRESSIONS)}",
        detail=f"it is {json.dumps(value)[:60]}",
    )


def _number(asked: Mapping[object, object], key: str) -> int | None:
    value = asked.get(key)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
        raise BadRequest(
            f"'{key}' must be a whole number", detail=f"it is {json.dumps(value)[:60]}"
        )
    return value


def _flag(asked: Mapping[object, object], key: str) -> bool:
    value = asked.get(key, False)
    if not isinstance(value, bool):
        raise BadRequest(f"'{key}' must be true or false", detail=f"it is {json.dumps(value)[:60]}")
    return value


def delete_topic(broker: Broker, name: str, users: Collection[str] = ()) -> Json:
    """Deletes the topic, unless jobs read or write it."""
    refuse_system(name)
    refuse_used(name, users)
    broker.delete_topic(name)
    return {"deleted": name}


def refuse_used(name: str, users: Collection[str]) -> None:
    """Raises TopicInUse if there are `users`, which need the topic."""
    if users:
        raise TopicInUse(
            f"topic '{name}' is used by {listed(sorted(users))}",
            hint="stop or remove these jobs first",
        )


class TopicInUse(BrokerError):
    """Running jobs read or write the topic."""


def append_lines(
    broker: Broker, name: str, data: bytes, *, shard: int = 0, key: str | None = None, now_ms: int
) -> Json:
    """Appends each non-empty line as a record, all in one batch; returns the offsets. Lines that
    are longer than 'record-size' are left out and named; BadRequest where no other is there."""
    if name != COMMANDS:
        refuse_system(name)
    lines, refused = _accepted(data)
    keys = [key.encode()] * len(lines) if key is not None else None
    if name == COMMANDS and keys is None:
        keys = [_command_id(line) for line in lines]
    appended_batch = broker.append(name, shard, lines, keys=keys, timestamp_ms=now_ms)
    offsets: Json = {
        "first_offset": appended_batch.first_offset,
        "next_offset": appended_batch.next_offset,
    }
    return {**offsets, "refused": refused} if refused else offsets


def _accepted(data: bytes) -> tuple[list[bytes], list[Json]]:
    """Returns the non-empty lines, and those that are too long by their numbers, from 1."""
    most = present().record_size
    lines = data.split(b"\n")
    refused: list[Json] = [
        {"line": i, "bytes": len(line), "error": too_long(len(line), most)}
        for i, line in enumerate(lines, 1)
        if len(line) > most
    ]
    accepted = [line for line in lines if 0 < len(line) <= most]
    if refused and not accepted:
        raise BadRequest(f"line {refused[0]['line']}: {refused[0]['error']}")
    return accepted, refused


def too_long(size: int, most: int) -> str:
    """The reason why a record is not taken."""
    return f"the record has {bytes_text(size)}, at most {most:,} are allowed ('record-size')"


def read_records(
    broker: Broker,
    name: str,
    *,
    shard: int = 0,
    offset: str = "earliest",
    limit: int = 100,
    wait_s: float = 0,
    key: str | None = None,
) -> Json:
    """Returns records of one shard from `offset` on (a number, 'earliest', 'latest' or a time).

    Of the next `limit` records those with `key`, if given. An empty result is returned after
    `wait_s` seconds, 1 at most.
    """
    if limit < 0 or not math.isfinite(wait_s):
        raise BadRequest("a limit and a time to wait are numbers from 0 on")
    start = find_offset(broker, name, shard, offset)
    if limit == 0:
        return {"records": [], "next_offset": start}
    limit = min(limit, MAX_RECORDS)
    records = broker.read(name, shard, start, max_records=limit)
    if records is None and wait_s > 0:
        broker.wait_for_records(name, shard, start, min(wait_s, MAX_WAIT_S))
        records = broker.read(name, shard, start, max_records=limit)
    if records is None:
        return {"records": [], "next_offset": start}
    return {
        "records": records_json(records, () if key is None else _forms_of_key(key)),
        "next_offset": records.next_offset,
    }


def find_offset(broker: Broker, name: str, shard: int, text: str) -> int:
    """Resolves an offset given as text: a number, 'earliest', 'latest', or a time.

    A time such as 2026-01-31T12:00 (UTC unless it says otherwise) is the first record since then.
    """
    if text == "latest":
        return broker.end_offset(name, shard)
    if text == "earliest":
        return broker.begin_offset(name, shard)
    if text.isascii() and text.removeprefix("-").isdigit():
        return int(text)
    try:
        time = moment_ms(text)
    except ValueError:
        hint = "a number, 'earliest', 'latest' or a time like 2026-01-31T12:00"
        raise BadRequest(f"'{text[:60]}' is not an offset", hint=hint) from None
    return broker.offset_for_time(name, shard, time)


def compact_topic(broker: Broker, name: str) -> Json:
    """Compacts the topic now; returns its size before and after."""
    refuse_system(name)
    before = broker.topic(name).bytes
    broker.compact(name)
    return {"name": name, "bytes_before": before, "bytes": broker.topic(name).bytes}


def refuse_system(name: str) -> None:
    """Raises BadRequest for system topics, which only the system writes."""
    if is_system(name):
        raise BadRequest(
            f"topic '{name}' belongs to the system",
            hint="choose a name that does not begin with '_'",
        )


def refuse_system_group(name: str) -> None:
    """Raises BadRequest for groups of the system: what they have read is not to be read again, or
    passed over."""
    if is_system(name):
        raise BadRequest(
            f"group '{name}' belongs to the system",
            hint="choose a name that does not begin with '_'",
        )


def _command_id(line: bytes) -> bytes:
    try:
        identity = json.loads(line)["id"]
        if isinstance(identity, str):
            return identity.encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise BadRequest(
        'a command is a JSON object with an "id"',
        detail=line[:200].decode("utf-8", "replace"),
        hint='{"id": "1", "op": "submit", "name": "NAME", "sql": "INSERT INTO …"}, all on one line',
    )


def topic_json(info: TopicInfo) -> Json:
    return {
        "name": info.name,
        "shards": info.shards,
        "begin": list(info.begin),
        "end": list(info.end),
        "records": sum(info.end) - sum(info.begin),
        "bytes": info.bytes,
        "compacted": info.compacted,
        "retention_ms": info.retention_ms,
        "retention_bytes": info.retention_bytes,
        "delete_retention_ms": info.delete_retention_ms,
        "max_bytes": info.max_bytes,
        "compression": info.compression,
        "damage": info.damage,
    }


def _forms_of_key(text: str) -> tuple[bytes, bytes]:
    """Returns a key as it was appended, and as 'key.fields' of one STRING column writes it: the
    canonical form of `sqlengine.state.canonical`, by which its shard is chosen."""
    plain = text.encode()
    return plain, struct.pack("<BI", 5, len(plain)) + plain


def records_json(records: Records, wanted: Collection[bytes] = ()) -> list[Json]:
    """Returns values and keys as text, or as base64 under another name if they are not UTF-8; only
    records with one of the `wanted` keys, if given."""
    keys = records.keys.to_pylist() if records.keys is not None else [None] * records.num_rows
    rows = zip(
        records.offsets.tolist(),
        records.timestamps.tolist(),
        keys,
        records.values.to_pylist(),
        strict=True,
    )
    rows_json: list[Json] = []
    for offset, timestamp, key, value in rows:
        if wanted and key not in wanted:
            continue
        rows_json.append(
            {"offset": offset, "timestamp": timestamp, **_text("key", key), **_text("value", value)}
        )
    return rows_json


def _text(name: str, value: bytes | None) -> Json:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def missing_folder(folder: object) -> ServiceError:
    return ServiceError(
        f"'{folder}' is not a data folder",
        hint="name the folder that 'sql serve --data' was given, or was made by it",
    )
