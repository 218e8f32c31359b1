"""What the commands over topics work on: a running server, or a data folder that no server uses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import click

from sqlengine.broker import topic_access, topic_details
from sqlengine.broker.embedded import EmbeddedBroker, system_clock
from sqlengine.broker.errors import DataFolderLocked
from sqlengine.cli.jobs import server_options
from sqlengine.client import Client, Json, Refused, default_client, quote

F = TypeVar("F", bound=Callable[..., object])
TOPICS = "/api/v1/topics"
GROUPS = "/api/v1/groups"


class Topics(Protocol):
    """The topics of a server, or of a folder."""

    def list(self) -> Json: ...

    def about(self, name: str) -> Json: ...

    def create(self, asked: Json) -> Json: ...

    def alter(self, name: str, asked: Json) -> Json: ...

    def compact(self, name: str) -> Json: ...

    def move(self, name: str, asked: Json) -> Json: ...

    def groups(self) -> Json: ...

    def reset(self, group: str, asked: Json) -> Json: ...

    def delete_group(self, group: str) -> Json: ...

    def delete(self, name: str) -> Json: ...

    def append(self, name: str, lines: bytes, shard: int, key: str | None) -> Json: ...

    def read(
        self, name: str, shard: int, offset: str, limit: int, wait: int, key: str | None
    ) -> Json: ...


class RemoteTopics:
    """Over HTTP."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> Json:
        return self._client.get(TOPICS)

    def about(self, name: str) -> Json:
        return self._client.get(f"{TOPICS}/{quote(name)}")

    def create(self, asked: Json) -> Json:
        return self._client.post(TOPICS, asked)

    def alter(self, name: str, asked: Json) -> Json:
        return self._client.request("PATCH", f"{TOPICS}/{quote(name)}", asked)

    def compact(self, name: str) -> Json:
        return self._client.post(f"{TOPICS}/{quote(name)}/compact")

    def move(self, name: str, asked: Json) -> Json:
        return self._client.post(f"{TOPICS}/{quote(name)}/move", asked)

    def groups(self) -> Json:
        return self._client.get(GROUPS)

    def reset(self, group: str, asked: Json) -> Json:
        return self._client.post(f"{GROUPS}/{quote(group)}/reset", asked)

    def delete_group(self, group: str) -> Json:
        return self._client.delete(f"{GROUPS}/{quote(group)}")

    def delete(self, name: str) -> Json:
        return self._client.delete(f"{TOPICS}/{quote(name)}")

    def append(self, name: str, lines: bytes, shard: int, key: str | None) -> Json:
        while True:
            try:
                return self._client.post(
                    f"{TOPICS}/{quote(name)}/records", lines, shard=shard, key=key
                )
            except Refused as error:
                retry_ms = error.body.get("retry_ms")
                if not isinstance(retry_ms, int):
                    raise
                time.sleep(retry_ms / 1000)  # the server lets a client send so much a second

    def read(
        self, name: str, shard: int, offset: str, limit: int, wait: int, key: str | None
    ) -> Json:
        asked: Json = {"shard": shard, "offset": offset, "limit": limit, "wait": wait, "key": key}
        return self._client.get(f"{TOPICS}/{quote(name)}/records", **asked)


class FolderTopics:
    """In a data folder; nobody else can use it meanwhile."""

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
def open_topics(
    data: str | None, server: str | None, token_file: str | None, *, make: bool = False
) -> Iterator[Topics]:
    """The folder's topics when --data names one, else the server's. `make`: the folder may be a new
    one."""
    if data is None:
        yield RemoteTopics(default_client(server, token_file))
        return
    if server is not None:
        raise click.UsageError("--data opens a folder, --server a server: give one of them")
    if not make and not (Path(data) / "topics").is_dir():
        raise topic_access.missing_folder(data)
    try:
        broker = EmbeddedBroker(data)
    except DataFolderLocked as error:
        hint = "leave out --data: topics are reached through the server while it runs"
        raise DataFolderLocked(error.message, detail=error.detail, hint=hint) from None
    try:
        yield FolderTopics(broker)
    finally:
        broker.close()


def topic_options(command: F) -> F:
    """--data beside the options of all commands that talk to a server."""
    text = "Data folder to open while no server runs on it (default: ask the server)."
    return click.option("--data", help=text)(server_options(command))
