"""Decides on consumer groups. A group belongs to who may read all topics that it reads: whoever
moves its offsets decides where all its members read on."""

from __future__ import annotations

from collections.abc import Collection

from sqlengine.access.policy import Action, require
from sqlengine.access.principals import Principal
from sqlengine.broker.base import Broker
from sqlengine.broker.ownership import GroupInfo


def check_group(principal: Principal, group: str, broker: Broker) -> None:
    """Raises Forbidden for a group of whose topics a principal may not read each."""
    require(principal, Action.READ_TOPIC)  # also where there is none
    found = next((g for g in broker.groups() if g.name == group), None)
    for topic in sorted(() if found is None else topics_of(found)):
        require(principal, Action.READ_TOPIC, topic)


def topics_of(group: GroupInfo) -> Collection[str]:
    """Returns the topics that a group reads, or has read."""
    return {*group.offsets, *(t for m in group.members for t in (*m.topics, *m.shards))}
