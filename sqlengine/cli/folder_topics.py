"""Topics of a data folder that no server uses, for `sql topic … --data FOLDER`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlengine.broker import topic_access, topic_details
from sqlengine.broker.embedded import EmbeddedBroker, system_clock
from sqlengine.broker.errors import DataFolderLocked
from sqlengine.client import Json


class FolderTopics:
    """The topics of a data folder, which no other process can use meanwhile."""

    def __init__(self, broker: EmbeddedBroker) -> None:
        self._broker = broker

    def list(self) -> Json:
        return topic_access.list_topics(self._broker)

    def about(self, name: str) -> Json:
        return topic_details.describe_topic(self._broker, name)

    def create(self, asked: Json) -> Json:
        return topic_access.create_topic(self._broker, asked)

    def alter(self, name: str, asked: Json) -> Json:
        return topic_access.alter_topic(self._broker, name, asked)

    def compact(self, name: str) -> Json:
        return topic_access.compact_topic(self._broker, name)

    def move(self, name: str, asked: Json) -> Json:
        return topic_details.move_shard(self._broker, name, asked, None)

    def groups(self) -> Json:
        return topic_details.list_groups(self._broker)

    def reset(self, group: str, asked: Json) -> Json:
        return topic_details.reset_group(self._broker, group, asked)

    def delete_group(self, group: str) -> Json:
        return topic_details.delete_group(self._broker, group)

    def delete(self, name: str) -> Json:
        return topic_access.delete_topic(self._broker, name)

    def append(self, name: str, lines: bytes, shard: int, key: str | None) -> Json:
        return topic_access.append_lines(
            self._broker, name, lines, shard=shard, key=key, now_ms=system_clock()
        )

    def read(
        self, name: str, shard: int, offset: str, limit: int, wait: int, key: str | None
    ) -> Json:
        return topic_access.read_records(
            self._broker, name, shard=shard, offset=offset, limit=limit, key=key
        )


@contextmanager
def open_folder(data: str, *, make: bool) -> Iterator[FolderTopics]:
    """Opens a data folder, a new one too if `make`. Raises as `open_broker`."""
    with open_broker(data, make=make) as broker:
        yield FolderTopics(broker)


@contextmanager
def open_broker(data: str, *, make: bool = False) -> Iterator[EmbeddedBroker]:
    """Opens the broker of a data folder, a new one too if `make`.

    Raises ServiceError if there is none, DataFolderLocked while another process uses it.
    """
    if not make and not (Path(data) / "topics").is_dir():
        raise topic_access.missing_folder(data)
    try:
        broker = EmbeddedBroker(data)
    except DataFolderLocked as error:
        hint = "leave out --data: topics are reached through the server while it runs"
        raise DataFolderLocked(error.message, detail=error.detail, hint=hint) from None
    try:
        yield broker
    finally:
        broker.close()
