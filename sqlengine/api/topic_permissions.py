"""Decides which messages to the broker a client may send, and what of the answers it sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from sqlengine.access.groups import check_group, topics_of
from sqlengine.access.policy import Action, allows, forbidden, require
from sqlengine.access.principals import Principal
from sqlengine.broker.base import Broker, TopicInfo
from sqlengine.broker.ownership import GroupInfo
from sqlengine.broker.remote.wire import (
    AlterTopic,
    Append,
    AppendAll,
    ApplyRetention,
    BeginOffset,
    Commit,
    Committed,
    Compact,
    CreateTopic,
    DeleteGroup,
    DeleteTopic,
    EndOffset,
    GetTopic,
    Groups,
    Heartbeat,
    Join,
    LastEpoch,
    Leave,
    Lookup,
    OffsetForTime,
    Read,
    ReadAll,
    Request,
    Shards,
    Sync,
    Topics,
    Trim,
    Wait,
    appends_of,
)

# Messages that name one topic.
_OF_A_TOPIC: Final[Mapping[type[Request], Action]] = MappingProxyType(
    {
        CreateTopic: Action.WRITE_TOPIC,
        AlterTopic: Action.WRITE_TOPIC,
        DeleteTopic: Action.WRITE_TOPIC,
        Compact: Action.WRITE_TOPIC,
        Trim: Action.WRITE_TOPIC,
        Append: Action.WRITE_TOPIC,
        LastEpoch: Action.SEE_TOPIC,
        GetTopic: Action.SEE_TOPIC,
        Shards: Action.SEE_TOPIC,
        BeginOffset: Action.SEE_TOPIC,
        EndOffset: Action.SEE_TOPIC,
        OffsetForTime: Action.SEE_TOPIC,
        Read: Action.READ_TOPIC,
        Lookup: Action.READ_TOPIC,
        Commit: Action.READ_TOPIC,
        Committed: Action.READ_TOPIC,
    }
)
# Those that name none: whose answers are filtered, or that tell nothing.
_OF_NONE: Final[Mapping[type[Request], Action]] = MappingProxyType(
    {
        Topics: Action.BE_KNOWN,
        Groups: Action.BE_KNOWN,
        Wait: Action.BE_KNOWN,
        Sync: Action.BE_KNOWN,
        ApplyRetention: Action.ADMINISTER,
    }
)
# Those for which each topic of the message, or of the group, is asked for.
_OF_SEVERAL: Final = (AppendAll, ReadAll, Join, Heartbeat, Leave, DeleteGroup)
KINDS: Final = frozenset({*_OF_A_TOPIC, *_OF_NONE, *_OF_SEVERAL})


def check_message(principal: Principal, asked: Request, broker: Broker) -> None:
    """Raises Forbidden for a message that a principal may not send."""
    if principal.is_admin:
        return
    kind = type(asked)
    for append in appends_of(asked):
        _check_writer(principal, append)
    if kind in _OF_NONE:
        require(principal, _OF_NONE[kind])
    elif kind in _OF_A_TOPIC:
        require(principal, _OF_A_TOPIC[kind], str(getattr(asked, "topic", "")))
        if isinstance(asked, Commit):  # moves where all members of the group read on
            check_group(principal, asked.group, broker)
    elif isinstance(asked, AppendAll):
        _require_all(principal, Action.WRITE_TOPIC, (a.topic for a in appends_of(asked)))
    elif isinstance(asked, ReadAll):
        _require_all(principal, Action.READ_TOPIC, (r.topic for r in asked.reads))
    elif isinstance(asked, Join):
        _require_all(principal, Action.READ_TOPIC, asked.topics)
        check_group(principal, asked.group, broker)
    elif isinstance(asked, Heartbeat | Leave | DeleteGroup):
        check_group(principal, asked.group, broker)
    else:
        require(principal, Action.ADMINISTER)


def _check_writer(principal: Principal, append: Append) -> None:
    """Raises Forbidden for a writer that may be another's: behind an epoch ahead of a job's own,
    the job's rows would be taken for repeated ones, and dropped."""
    own = f"client:{principal.name}/"  # no graph has a colon in its name
    if append.writer is not None and not append.writer.startswith(own):
        missing = f"a writer of its own, such as '{own}loader', not '{append.writer[:60]}'"
        raise forbidden(principal, Action.WRITE_TOPIC, append.topic, missing)


def _require_all(principal: Principal, action: Action, topics: Iterable[str]) -> None:
    require(principal, action)  # also where there is none
    for topic in topics:
        require(principal, action, topic)


def seen_of(principal: Principal, asked: Request, answer: object) -> object:
    """Returns what a principal may see of the answer to a message."""
    if principal.is_admin or not isinstance(answer, list):
        return answer
    if isinstance(asked, Topics):
        return [t for t in answer if isinstance(t, TopicInfo) and may_see(principal, t.name)]
    if isinstance(asked, Groups):
        return [g for g in answer if isinstance(g, GroupInfo) and sees_group(principal, g)]
    return answer


def may_see(principal: Principal, topic: str) -> bool:
    """True if a principal may know of a topic."""
    return allows(principal, Action.SEE_TOPIC, topic)


def sees_group(principal: Principal, group: GroupInfo) -> bool:
    """True if a principal may know of all topics of a group."""
    topics = topics_of(group)
    return bool(topics) and all(may_see(principal, topic) for topic in topics)
