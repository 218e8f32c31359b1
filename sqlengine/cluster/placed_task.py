"""A task of Spark that holds an instance: a child process of the worker, which lives and ends with
the task. The server watches it over a line of its own, and says when it is to end.

This module does not import Spark."""

from __future__ import annotations

import logging
import os
import resource
import select
import socket
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from parser.limits import Limits, use
from sqlengine.broker.remote.frames import receive, send
from sqlengine.broker.remote.network import Refused, open_line
from sqlengine.config import Config
from sqlengine.system.spawning import NetworkAddress, Process, Work, spawn

log = logging.getLogger("sqlengine")

# What the server says over the line.
TERMINATE: Final = b"terminate"
KILL: Final = b"kill"
# Seconds after which the end of the child is noticed.
_POLL_S: Final = 0.05


class Began(msgspec.Struct, frozen=True, tag=True):
    """The first that the server hears over the line: where the instance runs."""

    host: str
    pid: int


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The last that it hears: the exit code of the instance."""

    code: int


def hold_instance(work: Work, limits: Limits, _: Iterable[object]) -> None:
    """Runs an instance under the limits of the server, until it ends, or the server wants it to, or
    is gone.

    Does nothing where another task has its place: Spark repeats tasks that it has lost. Raises
    BrokerUnreachable where the server does not answer."""
    address = work.socket
    assert isinstance(address, NetworkAddress)
    try:
        line = open_line(address)
    except Refused as error:
        log.info("instance %s of %s: %s", work.place.name, work.place.graph, error)
        return
    with line, _local(work.config) as config:
        use(limits)
        _lift_memory_limit()
        # The kernel kills it with this thread.
        child = spawn(replace(work, config=config, parent=os.getpid()))
        try:
            _say(line, Began(socket.gethostname(), child.pid))
            code = _follow(line, child)
        finally:
            child.kill()
            child.wait()
        _say(line, Ended(code))


def _lift_memory_limit() -> None:
    """Takes back what the worker may have been told for a task before: it is not for the child."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))


def _follow(line: socket.socket, child: Process) -> int:
    """Does what the server says until the child has ended, and returns its exit code."""
    while (code := child.poll()) is None:
        if not select.select([line], [], [], _POLL_S)[0]:
            continue
        said = None
        with suppress(OSError):
            said = receive(line)
        if said == TERMINATE:
            child.terminate()
        else:  # to be killed, or nobody is there any more
            child.kill()
            return child.wait()
    return code


def _say(line: socket.socket, message: Began | Ended) -> None:
    with suppress(OSError):  # the server is gone, which `_follow` finds
        send(line, msgspec.msgpack.encode(message))


@contextmanager
def _local(config: Config) -> Iterator[Config]:
    """The configuration with a data folder that is here: on another machine one that is empty, for
    what can be computed again. The state is in the broker's topics there."""
    if config.data.is_dir():
        yield config
        return
    with tempfile.TemporaryDirectory(prefix="sqlengine-instance-") as folder:
        yield replace(config, data=Path(folder))
