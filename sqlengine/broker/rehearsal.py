"""A broker whose changes are checked and not made, for dry runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack, cast

from sqlengine.broker.base import Broker, TopicInfo, TopicOptions, check_topic_name
from sqlengine.broker.errors import has_members, owned_by_member, topic_exists
from sqlengine.broker.ownership import MemberInfo
from sqlengine.broker.topics import Definition, check_definition


def rehearsal(broker: Broker) -> Broker:
    """Returns a broker that refuses changes of topics and groups as another one does, and makes
    none. What it returns is what would be there; all else is that of the other one."""
    return cast("Broker", _Rehearsal(broker))


class _Rehearsal:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def __getattr__(self, name: str) -> object:
        return getattr(self._broker, name)

    def create_topic(
        self,
        name: str,
        shards: int = 1,
        *,
        compacted: bool = False,
        if_not_exists: bool = False,
        **options: Unpack[TopicOptions],
    ) -> TopicInfo:
        check_topic_name(name)
        check_definition(Definition(name, shards, compacted, **options))
        known = self._known(name)
        if known is None:
            none = (0,) * shards
            return TopicInfo(name, shards, none, none, 0, compacted, **options)
        if not if_not_exists:
            raise topic_exists(name)
        return known

    def alter_topic(self, name: str, **changes: Unpack[TopicOptions]) -> TopicInfo:
        changed = replace(self._broker.topic(name), **changes)
        limits = changed.retention_ms, changed.retention_bytes, changed.delete_retention_ms
        more = changed.max_bytes, changed.compression
        check_definition(Definition(name, changed.shards, changed.compacted, *limits, *more))
        return changed

    def delete_topic(self, name: str) -> None:
        if self._known(name) is None:
            self._broker.topic(name)  # says that there is none

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        for member in self._members(group):
            for shard in member.shards.get(topic, ()):
                if shard in offsets:
                    raise owned_by_member(group, topic, shard, member.name)

    def delete_group(self, group: str) -> None:
        if members := self._members(group):
            raise has_members(group, (member.name for member in members))

    def _known(self, name: str) -> TopicInfo | None:
        return next((topic for topic in self._broker.topics() if topic.name == name), None)

    def _members(self, group: str) -> tuple[MemberInfo, ...]:
        found = (known.members for known in self._broker.groups() if known.name == group)
        return next(found, ())
