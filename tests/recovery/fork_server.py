"""A process that forks instances for a server which dies: a forked one runs in milliseconds, and
only a process without threads can fork. It ends with the server, and its instances with it."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock
from typing import NoReturn

from sqlengine.system.process import die_with_parent
from sqlengine.system.spawning import Work

_MOST = 1 << 20
Run = Callable[[Work, int], None]


@dataclass
class Forked:
    """An instance as its server sees it (`Process`); `number`: how many were forked before it."""

    pid: int
    number: int
    fork_server: ForkServer
    code: int | None = None

    def poll(self) -> int | None:
        if self.code is None:
            self.code = self.fork_server.ask(self.pid)
        return self.code

    def wait(self, timeout: float | None = None) -> int:
        ends = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if ends is not None and time.monotonic() > ends:
                raise subprocess.TimeoutExpired("instance", timeout or 0.0)
            time.sleep(0.005)
        return code

    def terminate(self) -> None:
        self.signal(signal.SIGTERM)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)

    def signal(self, number: int) -> None:
        if self.code is None:  # a pid is given to nobody else before its end was told
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


class ForkServer:
    """Made before the server is forked, which uses `spawn`. `run` is what an instance does, given
    its work and number."""

    def __init__(self, run: Run) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = Lock()
        self.forked: list[Forked] = []
        self.pid = os.fork()
        if self.pid == 0:
            self._ours.close()
            _serve(theirs, run)
        theirs.close()

    def spawn(self, work: Work) -> Forked:
        with self._lock:
            self._ours.sendall(pickle.dumps(work))
            pid, number = pickle.loads(self._ours.recv(_MOST))
        self.forked.append(Forked(pid, number, self))
        return self.forked[-1]

    def ask(self, pid: int) -> int | None:
        """With which code the instance has ended, if it has."""
        with self._lock:
            self._ours.sendall(pickle.dumps(pid))
            code: int | None = pickle.loads(self._ours.recv(_MOST))
        return code

    def leave(self) -> None:
        """To the server that was forked, with which it ends."""
        self._ours.close()


def _serve(asked: socket.socket, run: Run) -> NoReturn:
    running: set[int] = set()
    count, me = 0, os.getpid()
    while question := _next(asked):
        what: Work | int = pickle.loads(question)
        if isinstance(what, int):
            answer: object = _code(what)
            running -= {what} if answer is not None else set()
        else:
            pid = os.fork()
            if pid == 0:
                asked.close()
                die_with_parent(me)
                _live(run, what, count)
            running.add(pid)
            answer, count = (pid, count), count + 1
        with suppress(BrokenPipeError):
            asked.sendall(pickle.dumps(answer))
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        # What it has used of the processors counts for who waits for this process.
        os.waitpid(pid, 0)
    os._exit(0)


def _next(asked: socket.socket) -> bytes:
    """Nothing once the server is gone, which may not have heard the last answer."""
    try:
        return asked.recv(_MOST)
    except ConnectionResetError:
        return b""


def _code(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _live(run: Run, work: Work, number: int) -> NoReturn:
    code = 1
    try:
        run(work, number)
        code = 0
    except BaseException:  # noqa: BLE001  the process ends here, and says why
        traceback.print_exc()
    finally:
        os._exit(code)
