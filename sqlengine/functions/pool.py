"""The modules whose functions can be called in this process: one host a content, whoever uses
it."""

from __future__ import annotations

import atexit
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from parser.errors import ExecutionError
from sqlengine.functions.host import ModuleHost
from sqlengine.functions.limits import FunctionLimits

# The identity of a function that was switched off, and why.
OnBroken = Callable[[str, str], None]


class _Group(threading.local):
    """The group of hosts that a thread calls."""

    name = ""


def _unheard(identity: str, reason: str) -> None:
    """Takes the failures of functions that nobody else calls."""


class Pool:
    """Hosts by group and content. Each user (an engine, a session) says which contents it needs:
    the workers of others stop.

    Jobs and scripts call those of the group ''. A thread within `apart` calls others, so that its
    rows neither make a job wait for a worker nor switch off a function of a job; so does one within
    `group`, whose workers stay from one time to the next."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[tuple[str, str], ModuleHost] = {}
        self._group = _Group()
        self._within: Counter[str] = Counter()
        self._kept: dict[tuple[str, object], frozenset[str]] = {}
        self._listeners: dict[object, OnBroken] = {}

    def join(self, user: object, on_broken: OnBroken) -> None:
        with self._lock:
            self._kept["", user] = frozenset()
            self._listeners[user] = on_broken

    def leave(self, user: object) -> None:
        self.keep(user, ())
        with self._lock:
            self._kept.pop((self._group.name, user), None)
            self._listeners.pop(user, None)

    @contextmanager
    def apart(self, group: str) -> Iterator[None]:
        """Lets this thread call workers of another group meanwhile; they stop when no thread is
        within the group any more."""
        with self._lock:
            self._within[group] += 1
        try:
            with self.group(group):
                yield
        finally:
            with self._lock:
                self._within[group] -= 1
                idle = [] if self._within[group] else [k for k in self._hosts if k[0] == group]
                hosts = [self._hosts.pop(key) for key in idle]
            for host in hosts:
                host.stop()

    @contextmanager
    def group(self, name: str) -> Iterator[None]:
        """Lets this thread call workers of another group meanwhile."""
        before, self._group.name = self._group.name, name
        try:
            yield
        finally:
            self._group.name = before

    def add(self, content: str, folder: Path, limits: FunctionLimits) -> ModuleHost:
        """The host of a content whose sources are in `folder`; the one there is, if it has sources
        still."""
        group = self._group.name
        with self._lock:
            host = self._hosts.get((group, content))
            if host is not None and host.limits == limits and host.folder.exists():
                return host
            fresh = ModuleHost(content, folder, limits, _unheard if group else self._broken)
            self._hosts[group, content] = fresh
        if host is not None:
            host.stop()
        return fresh

    def keep(self, user: object, contents: Collection[str]) -> None:
        """`user` needs these contents and no others, of the group that this thread calls: workers
        that nobody needs are stopped. A later call starts them again."""
        mine = self._group.name
        with self._lock:
            self._kept[mine, user] = frozenset(contents)
            kept = (contents for (group, _), contents in self._kept.items() if group == mine)
            needed = frozenset[str]().union(*kept)
            idle = [h for (g, c), h in self._hosts.items() if g == mine and c not in needed]
        for host in idle:
            host.stop()

    def host(self, content: str) -> ModuleHost:
        """The host of a content. ExecutionError where nobody has added it."""
        host = self._hosts.get((self._group.name, content))
        if host is not None:
            return host
        shared = self._hosts.get(("", content))
        if shared is None:
            raise ExecutionError(
                "a function of a user is called whose module is not loaded",
                detail=f"content {content[:16]}",
            )
        return self.add(content, shared.folder, shared.limits)

    def hosts(self) -> list[ModuleHost]:
        return list(self._hosts.values())

    def stop(self) -> None:
        for host in self.hosts():
            host.stop()

    def _broken(self, identity: str, reason: str) -> None:
        for tell in list(self._listeners.values()):
            tell(identity, reason)


POOL = Pool()
atexit.register(POOL.stop)
