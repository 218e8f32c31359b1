"""Shards and groups of topics as JSON, for people and other programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from sqlengine.broker.base import Broker
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.ownership import GroupInfo
from sqlengine.broker.topic_access import (
    BadRequest,
    Json,
    find_offset,
    refuse_system,
    refuse_system_group,
    topic_json,
)


class Movable(Broker, Protocol):
    """A broker in this process, whose shards can be moved."""

    def move_shard(self, topic: str, shard: int, folder: Path, *, data: bool = False) -> None: ...


def describe_topic(broker: Broker, name: str) -> Json:
    """Returns `topic_json` with each shard's size and folders, and each group's owners and lag."""
    info = broker.topic(name)
    shards = [
        {
            "shard": number,
            "begin": shard.begin,
            "end": shard.end,
            "records": shard.end - shard.begin,
            "bytes": shard.bytes,
            "folders": dict(shard.folders),
        }
        for number, shard in enumerate(broker.shards(name))
    ]
    groups = [_progress(group, name, info.begin, info.end) for group in broker.groups()]
    return topic_json(info) | {"places": shards, "groups": [g for g in groups if g["shards"]]}


def list_groups(broker: Broker, seen: Callable[[GroupInfo], bool] = lambda _: True) -> Json:
    """Returns the groups that may be `seen`, with their members and topics."""
    ends: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        t.name: (t.begin, t.end) for t in broker.topics()
    }
    groups = []
    for group in filter(seen, broker.groups()):
        topics = sorted(
            {*group.offsets, *(t for m in group.members for t in m.shards)} & ends.keys()
        )
        groups.append(
            {
                "group": group.name,
                "generation": group.generation,
                "members": [
                    {
                        "name": member.name,
                        "topics": list(member.topics),
                        "shards": {topic: list(shards) for topic, shards in member.shards.items()},
                        "session_ms": member.session_ms,
                        "silent_ms": member.silent_ms,
                    }
                    for member in group.members
                ],
                "topics": [{"topic": t} | _progress(group, t, *ends[t]) for t in topics],
            }
        )
    return {"groups": groups}


def _progress(group: GroupInfo, topic: str, begin: tuple[int, ...], end: tuple[int, ...]) -> Json:
    owners = {shard: m.name for m in group.members for shard in m.shards.get(topic, ())}
    committed = group.offsets.get(topic, {})
    shards = [
        {
            "shard": shard,
            "owner": owners.get(shard),
            "committed": committed.get(shard),
            "end": end[shard],
            "lag": end[shard] - max(begin[shard], min(committed.get(shard, 0), end[shard])),
        }
        for shard in range(len(end))
        if shard in owners or shard in committed
    ]
    return {"group": group.name, "shards": shards, "lag": sum(int(str(s["lag"])) for s in shards)}


def reset_group(broker: Broker, group: str, asked: object) -> Json:
    """Sets the offsets at which a group continues: {"topic", "to", "shard"}.

    `to` is an offset as for `find_offset`; the default is all shards. Fenced while the group has
    members.
    """
    refuse_system_group(group)
    if not isinstance(asked, Mapping) or not all(
        isinstance(asked.get(k), str) for k in ("topic", "to")
    ):
        raise BadRequest(
            'a reset needs a "topic" and a "to"', hint='send {"topic": "events", "to": "earliest"}'
        )
    name, to, shard = str(asked["topic"]), str(asked["to"]), asked.get("shard")
    info = broker.topic(name)
    if shard is not None and (not isinstance(shard, int) or isinstance(shard, bool)):
        raise BadRequest("'shard' must be a whole number")
    shards = range(info.shards) if shard is None else [shard]
    offsets = {number: find_offset(broker, name, number, to) for number in shards}
    for number, offset in offsets.items():
        if not info.begin[number] <= offset <= broker.end_offset(name, number):
            raise BrokerError(
                f"offset {offset} of topic {name!r} shard {number} does not exist",
                detail=f"it begins at {info.begin[number]} and ends before {info.end[number]}",
            )
    broker.commit(group, name, offsets)
    return {
        "group": group,
        "topic": name,
        "offsets": {str(number): offset for number, offset in offsets.items()},
    }


def delete_group(broker: Broker, group: str) -> Json:
    """Deletes the committed offsets of the group. BrokerError if there is no such group."""
    refuse_system_group(group)
    if group not in {known.name for known in broker.groups()}:
        raise BrokerError(f"group {group!r} does not exist")
    broker.delete_group(group)
    return {"deleted": group}


def move_shard(broker: Movable, name: str, asked: object, volumes: tuple[Path, ...] | None) -> Json:
    """Moves a shard: {"shard", "folder", "with_data"}; with `volumes` only into or below one of
    them."""
    if not isinstance(asked, Mapping) or not isinstance(asked.get("folder"), str):
        raise BadRequest('a move needs a "folder"', hint='send {"shard": 0, "folder": "/disk2"}')
    refuse_system(name)
    shard, data, folder = (
        asked.get("shard", 0),
        asked.get("with_data", False),
        Path(str(asked["folder"])),
    )
    if not isinstance(shard, int) or not isinstance(data, bool):
        raise BadRequest("'shard' must be a whole number, 'with_data' true or false")
    if volumes is not None and not any(
        folder.resolve().is_relative_to(v.resolve()) for v in volumes
    ):
        raise BadRequest(
            f"'{folder}' is not a folder for topics",
            hint=f"start the server with --volume {folder} to allow it",
        )
    broker.move_shard(name, shard, folder, data=data)
    return {"name": name, "shard": shard, "folders": dict(broker.shards(name)[shard].folders)}
