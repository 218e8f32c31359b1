"""Access of the commands to topics: those of a running server, or of a data folder that no server
uses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

import click

from sqlengine.cli.options import server_options
from sqlengine.cli.waiting import connect
from sqlengine.client import Client, Json, Refused, local_server, quote

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
    """The topics of a server, over HTTP."""

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


@contextmanager
def open_topics(
    data: str | None, server: str | None, token_file: str | None, *, make: bool = False
) -> Iterator[Topics]:
    """Opens the topics of the folder when --data names one, else of the server. While a server uses
    the folder, it is asked over its local socket.

    `make`: the folder may be a new one. Raises DataFolderLocked while a server uses the folder that
    does not answer there.
    """
    if data is not None and server is not None:
        raise click.UsageError("--data opens a folder, --server a server: give one of them")
    asked = server if data is None else local_server(Path(data))
    if data is None or asked is not None:
        yield RemoteTopics(connect(asked, token_file))
        return
    from sqlengine.cli.folder_topics import open_folder  # the broker, with pyarrow

    with open_folder(data, make=make) as topics:
        yield topics


def topic_options(command: F) -> F:
    """--data beside the options of all commands that talk to a server."""
    text = "Data folder to open while no server runs on it (default: ask the server)."
    return click.option("--data", help=text)(server_options(command))
