"""The topics of a data folder while a broker has it: which there are, made and changed one at a time."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Unpack

import msgspec

from sqlengine.broker.base import TopicOptions
from sqlengine.broker.chain import Options
from sqlengine.broker.errors import BrokerError, TopicExists, cannot_write, topic_not_found
from sqlengine.broker.shard import ShardLog
from sqlengine.broker.topics import Definition, Topic, check_definition, create_topic, open_topics, remove_topic


class OpenTopics:
    """Any thread may ask. With `changing` held none comes or goes."""

    def __init__(self, folder: Path, options: Options) -> None:
        self.changing = threading.RLock()
        self._parent, self._trash = folder / "topics", folder / "trash"
        self._options = options
        self._topics = open_topics(self._parent, self._trash, options)

    def __contains__(self, name: str) -> bool:
        return name in self._topics

    def __getitem__(self, name: str) -> Topic:
        """TopicNotFound when there is none of the name."""
        topic = self._topics.get(name)
        if topic is None:
            raise topic_not_found(name, list(self._topics))
        return topic

    def all(self) -> list[Topic]:
        with self.changing:
            return list(self._topics.values())

    def logs(self) -> list[ShardLog]:
        return [log for topic in self.all() for log in topic.logs]

    def create(self, definition: Definition, *, if_not_exists: bool) -> Topic:
        check_definition(definition)
        name = definition.name
        with self.changing:
            if name not in self._topics:
                try:
                    self._topics[name] = create_topic(self._parent, self._trash, definition, self._options)
                except OSError as error:
                    raise cannot_write(f"topic {name!r}", error) from error
            elif not if_not_exists:
                raise TopicExists(f"topic {name!r} exists already", hint="choose another name or delete it first")
            return self._topics[name]

    def alter(self, name: str, **changes: Unpack[TopicOptions]) -> Topic:
        with self.changing:
            topic = self[name]
            definition = msgspec.structs.replace(topic.definition, **changes)
            check_definition(definition)
            try:
                topic.alter(definition)
            except OSError as error:
                raise cannot_write(f"topic {name!r}", error) from error
            return topic

    def move(self, name: str, shard: int, folder: Path, *, data: bool) -> None:
        """See `EmbeddedBroker.move_shard`."""
        if not folder.is_absolute():
            raise BrokerError(f"the folder {str(folder)!r} is not absolute", hint="write it from / on")
        with self.changing:
            topic = self[name]
            try:
                topic.move(shard, folder)
            except OSError as error:
                raise cannot_write(f"folder {str(folder)!r}", error) from error
        if data:
            topic.log(shard).bring()

    def remove(self, name: str) -> None:
        with self.changing:
            topic = self[name]
            del self._topics[name]
            remove_topic(topic, self._trash)

    def close(self) -> None:
        for topic in self.all():
            topic.close()
        self._topics.clear()
