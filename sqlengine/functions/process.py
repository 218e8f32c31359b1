"""A worker process: started, asked, killed."""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from sqlengine.functions.limits import FunctionLimits
from sqlengine.functions.protocol import Closed, Header, encode, receive
from sqlengine.functions.worker import PROGRESS

_START_S = 30.0
_SOCKET_BYTES = 1 << 20
# A worker dies with the thread that started it (that is how Linux tells it of the server's death):
# this one never ends.
_starter = ThreadPoolExecutor(1, thread_name_prefix="functions")

# Answers a question of the worker.
Serve = Callable[[Header, list[pa.Buffer]], tuple[Header, list[pa.Buffer]]]


class Lost(Exception):
    """The worker died or was killed. `start`, `end`: the rows at work, -1 where none was."""

    def __init__(self, reason: str, start: int, end: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.start = start
        self.end = end


class WorkerProcess:
    """A process that runs the functions of one folder of sources. Asked by one thread at a time."""

    def __init__(self, folder: Path, limits: FunctionLimits) -> None:
        self._limits = limits
        mine, theirs = socket.socketpair()
        self._channel = mine
        for end in (mine, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BYTES)
        shared = os.memfd_create("progress", 0)
        os.ftruncate(shared, PROGRESS * 8)
        self._memory = mmap.mmap(shared, PROGRESS * 8)
        self._progress = memoryview(self._memory).cast("q")
        try:
            self._process = _starter.submit(
                _start, folder, limits, theirs.fileno(), shared
            ).result()
        finally:
            theirs.close()
            os.close(shared)
        self.bound: set[int] = set()
        self._waited = 0.0
        self._poll = select.poll()
        self._poll.register(self._channel, select.POLLIN)

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(
        self,
        header: Mapping[str, object],
        blobs: Sequence[pa.Buffer] = (),
        row_s: float | None = None,
        serve: Serve | None = None,
    ) -> tuple[Header, list[pa.Buffer]]:
        """The answer. `serve` answers what the worker asks before. Lost where the process dies, or
        a row takes longer than it may (then it is killed)."""
        row_s = self._limits.row_s if row_s is None else row_s
        self._progress[0] = self._progress[1] = -1
        try:
            self._channel.settimeout(max(row_s, 1.0))
            while True:
                for piece in encode(header, blobs):
                    self._channel.sendall(piece)
                self._wait(row_s)
                self._channel.settimeout(_START_S)
                answer, parts = receive(self._channel)
                if serve is None or "ask" not in answer:
                    return answer, parts
                header, blobs = serve(answer, parts)
        except TimeoutError:
            raise self._lost("it did not take or give data") from None
        except (Closed, ConnectionError):
            raise self._lost(None) from None

    def _wait(self, row_s: float) -> None:
        """Waits for the answer as long as the rows make progress. Time in which the machine was
        busy with others and the worker only waited for a processor does not count."""
        poll = self._poll
        if poll.poll(1000 * row_s / 8):  # nearly always: nothing has to be measured
            return
        now = began = moved = self._clock() - row_s / 8
        at = tuple(self._progress[:3])
        while not poll.poll(max(1.0, 1000 * min(moved + row_s - now, row_s / 4))):
            now = self._clock()
            where = tuple(self._progress[:3])
            if where != at:
                at, moved = where, now
            if now - moved >= row_s:
                raise self._lost(
                    f"it took longer than {row_s:g} s ('sql serve --function-seconds')"
                )
            if now - began >= self._limits.batch_s:
                raise self._lost(f"the rows of a batch took longer than {self._limits.batch_s:g} s")

    def _clock(self) -> float:
        """Seconds, without those that the worker's main thread was kept waiting for a processor."""
        # It has just died, or the kernel does not tell.
        with suppress(OSError, IndexError, ValueError):
            self._waited = int(Path(f"/proc/{self.pid}/schedstat").read_bytes().split()[1]) / 1e9
        return time.monotonic() - self._waited

    def _lost(self, reason: str | None) -> Lost:
        """Kills what is left; the reason is that of its death where none is known."""
        start, end = self._progress[0], self._progress[1]
        if reason is None:
            try:
                self._process.wait(1)
            except subprocess.TimeoutExpired:
                reason = "its process closed the connection"
        self.kill()
        return Lost(reason or _death(self._process.returncode), start, end)

    def kill(self) -> None:
        """Ends it and all processes that it started."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            self._process.kill()
        self._process.wait()
        self._channel.close()


def _death(code: int) -> str:
    if code >= 0:
        return f"its process ended with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"its process died of {name}"


def _start(
    folder: Path, limits: FunctionLimits, channel: int, shared: int
) -> subprocess.Popen[bytes]:
    folder = folder.absolute()  # the process begins in it, where a relative path names another
    command = [sys.executable, "-P", "-m", "sqlengine.functions.worker"]
    command += [str(channel), str(shared), str(limits.memory), str(folder), str(os.getpid())]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SQLENGINE_")}
    environment = {
        **inherited,
        "PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path if p),
        "PYTHONDONTWRITEBYTECODE": "1",
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        env=environment,
        cwd=folder,
        pass_fds=(channel, shared),
        start_new_session=True,
    )
