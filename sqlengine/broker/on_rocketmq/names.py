"""Tells which topics are in the cluster, and what they are called there."""

from __future__ import annotations

import re
from typing import Final

from sqlengine.broker.base import check_topic_name, is_system
from sqlengine.broker.errors import BrokerError
from sqlengine.broker.topic_access import COMMANDS, RESULTS

# The topic in which a data folder knows its topics in the cluster.
KEPT: Final = "_rocketmq"
_SHARED: Final = frozenset({COMMANDS, RESULTS})
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,127}")


def is_in_cluster(topic: str) -> bool:
    """True for topics of users, and for commands and their results; what else the engine keeps
    belongs to its checkpoints, on the same disk."""
    return topic in _SHARED or not is_system(topic)


def name_in_cluster(topic: str, commands: str = "") -> str:
    """Returns what a topic is called in the cluster. BrokerError where RocketMQ has no such names.

    `commands`: what the names of the topics of commands begin with."""
    check_topic_name(topic)
    if not _NAME.fullmatch(topic):
        raise BrokerError(
            f"topic {topic!r} cannot be in RocketMQ",
            detail="names have 1 to 127 letters, digits, underscores and hyphens there, and no dot",
            hint=f"call it {re.sub('[.]', '_', topic)[:127]!r}",
        )
    return commands + topic if topic in _SHARED else topic
