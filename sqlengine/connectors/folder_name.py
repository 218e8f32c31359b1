"""The name of a data folder, by which systems that several servers use tell them apart: graphs are
called alike in all folders."""

from __future__ import annotations

import os
from typing import Final

from sqlengine.broker.base import Broker
from sqlengine.broker.errors import TopicNotFound

_TOPIC: Final = "_data_folder"
_NAME: Final = b"name"
# What writers are called by: the name, or nothing in a folder that wrote before it had one.
_WRITERS: Final = b"writers"


def folder_name(broker: Broker) -> str:
    """Returns the name of the broker's data folder, which is chosen by chance when it is first
    asked for. BrokerError where it cannot be kept."""
    found = _kept(broker, _NAME)
    return _keep(broker, _NAME, os.urandom(8).hex()) if found is None else found


def name_writers(broker: Broker, *, used: bool) -> None:
    """Says, once for a data folder, what its writers are called by. In one that was `used` before
    folders had names, what they wrote is known without."""
    if _kept(broker, _WRITERS) is None:
        _keep(broker, _WRITERS, "" if used else folder_name(broker))


def writers_name(broker: Broker | None) -> str:
    """Returns what the writers of a data folder are called by; '' for nothing, as in a script."""
    return "" if broker is None else _kept(broker, _WRITERS) or ""


def _kept(broker: Broker, key: bytes) -> str | None:
    try:
        found = broker.lookup(_TOPIC, key)
    except TopicNotFound:
        return None
    return None if found is None else found.value.decode()


def _keep(broker: Broker, key: bytes, text: str) -> str:
    broker.create_topic(_TOPIC, 1, compacted=True, if_not_exists=True)
    broker.append(_TOPIC, 0, [text.encode()], keys=[key], timestamp_ms=0)
    return text
