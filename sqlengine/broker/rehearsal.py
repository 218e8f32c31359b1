"""A broker whose changes are checked and not made, for dry runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack, cast

from sqlengine.broker.base import Broker, TopicInfo, TopicOptions
from sqlengine.broker.embedded import EmbeddedBroker


def rehearsal(broker: EmbeddedBroker) -> Broker:
    """Returns a broker that refuses changes of topics and groups as another one does, and makes
    none. What it returns is what would be there; all else is that of the other one."""
    return cast("Broker", _Rehearsal(broker))


class _Rehearsal:
    def __init__(self, broker: EmbeddedBroker) -> None:
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
        new = self._broker.new_definition(
            name, shards, compacted=compacted, if_not_exists=if_not_exists, **options
        )
        if new is None:
            return self._broker.topic(name)
        none = (0,) * shards
        return TopicInfo(name, shards, none, none, 0, compacted, **options)

    def alter_topic(self, name: str, **changes: Unpack[TopicOptions]) -> TopicInfo:
        self._broker.changed_definition(name, **changes)
        return replace(self._broker.topic(name), **changes)

    def delete_topic(self, name: str) -> None:
        self._broker.require_deletable(name)

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        with self._broker.committing(group, topic, offsets):
            pass

    def delete_group(self, group: str) -> None:
        with self._broker.deleting_group(group):
            pass
