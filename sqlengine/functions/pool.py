"""The modules whose functions can be called in this process: one host a content, whoever uses
it."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Collection
from pathlib import Path

from parser.errors import ExecutionError
from sqlengine.functions.host import ModuleHost
from sqlengine.functions.limits import FunctionLimits

# The identity of a function that was switched off, and why.
OnBroken = Callable[[str, str], None]


class Pool:
    """Hosts by content. Each user (an engine, a session) says which contents it needs: the workers
    of others stop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._hosts: dict[str, ModuleHost] = {}
        self._kept: dict[object, frozenset[str]] = {}
        self._listeners: dict[object, OnBroken] = {}

    def join(self, user: object, on_broken: OnBroken) -> None:
        with self._lock:
            self._kept[user] = frozenset()
            self._listeners[user] = on_broken

    def leave(self, user: object) -> None:
        self.keep(user, ())
        with self._lock:
            self._kept.pop(user, None)
            self._listeners.pop(user, None)

    def add(self, content: str, folder: Path, limits: FunctionLimits) -> ModuleHost:
        """The host of a content whose sources are in `folder`; the one there is, if it has sources
        still."""
        with self._lock:
            host = self._hosts.get(content)
            if host is not None and host.limits == limits and host.folder.exists():
                return host
            fresh = self._hosts[content] = ModuleHost(content, folder, limits, self._broken)
        if host is not None:
            host.stop()
        return fresh

    def keep(self, user: object, contents: Collection[str]) -> None:
        """`user` needs these contents and no others: workers that nobody needs are stopped. A later
        call starts them again."""
        with self._lock:
            self._kept[user] = frozenset(contents)
            needed = frozenset[str]().union(*self._kept.values())
            idle = [h for c, h in self._hosts.items() if c not in needed]
        for host in idle:
            host.stop()

    def host(self, content: str) -> ModuleHost:
        """The host of a content. ExecutionError where nobody has added it."""
        host = self._hosts.get(content)
        if host is None:
            raise ExecutionError(
                "a function of a user is called whose module is not loaded",
                detail=f"content {content[:16]}",
            )
        return host

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
