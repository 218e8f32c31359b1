"""The name of a data folder, by which systems that several servers write to tell them apart: graphs
are called alike in all folders."""

from __future__ import annotations

import os
from typing import Final

from sqlengine.broker.base import Broker
from sqlengine.broker.errors import TopicNotFound

_TOPIC: Final = "_data_folder"
_KEY: Final = b"name"


def name_folder(broker: Broker, *, used: bool) -> None:
    """Gives the broker's data folder a name, chosen by chance, where it has none. One that was
    `used` before folders had names gets an empty one: what it wrote is known without."""
    broker.create_topic(_TOPIC, 1, compacted=True, if_not_exists=True)
    if broker.lookup(_TOPIC, _KEY) is None:
        name = b"" if used else os.urandom(8).hex().encode()
        broker.append(_TOPIC, 0, [name], keys=[_KEY], timestamp_ms=0)


def folder_name(broker: Broker | None) -> str:
    """Returns the name of the data folder; '' where it has none, as that of a script."""
    if broker is None:
        return ""
    try:
        found = broker.lookup(_TOPIC, _KEY)
    except TopicNotFound:
        return ""
    return "" if found is None else found.value.decode()
