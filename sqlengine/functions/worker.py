"""The process in which the functions of one module run: `python -m sqlengine.functions.worker FD
PROGRESS_FD MEMORY FOLDER`.

It answers one request after the other; a process function may ask for entries of its views before.
Where it is in a request stands in shared memory, so that after a crash or in a hang the server
knows the row at fault. What users' code prints goes to the server's standard error."""

from __future__ import annotations

import importlib
import mmap
import os
import resource
import signal
import socket
import sys
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from sqlengine.functions.calls import Answer, Call
from sqlengine.functions.declarations import describe, make_call
from sqlengine.functions.hints import BadSignature
from sqlengine.functions.process_calls import ProcessCall
from sqlengine.functions.protocol import Closed, Header, encode, receive
from sqlengine.functions.reasons import reason_of, set_root
from sqlengine.system.memory import forget_pandas
from sqlengine.system.process import die_with_parent

PROGRESS = (
    4  # numbers in shared memory: first row at work, the one behind the last, a pulse, one spare
)


class Worker:
    def __init__(self, channel: socket.socket, progress: memoryview, folder: Path) -> None:
        self._channel = channel
        self._progress = progress
        self._folder = folder
        self._calls: dict[int, Call] = {}

    def serve(self) -> None:
        """Answers requests until the server closes its end."""
        while True:
            try:
                header, blobs = receive(self._channel)
            except (Closed, ConnectionError):
                return
            self._progress[0] = self._progress[1] = -1
            answer, parts = self._answer(header, blobs)
            for piece in encode(answer, parts):
                self._channel.sendall(piece)

    def _answer(self, header: Header, blobs: list[pa.Buffer]) -> Answer:
        match header["op"]:
            case "describe":
                return self._describe(str(header["place"])), []
            case "bind":
                return self._bind(header, blobs), []
            case "call":
                number = header["id"]
                assert isinstance(number, int)
                return self._calls[number](header, blobs, self._progress)
        raise ValueError(f"unknown request {header['op']}")

    def _describe(self, place: str) -> Header:
        try:
            return {"spec": asdict(describe(find(place)))}
        except BadSignature as error:
            return {"error": error.message, "hint": error.hint}
        except BaseException as error:  # noqa: BLE001  whatever the user's module does while it is imported
            return {"error": f"the module cannot be imported: {reason_of(error)}", "hint": None}

    def _bind(self, header: Header, blobs: list[pa.Buffer]) -> Header:
        number = header["id"]
        assert isinstance(number, int)
        call = make_call(find(str(header["place"])), [pa.ipc.read_schema(b) for b in blobs])
        if isinstance(call, ProcessCall):
            call.question = self._question
        self._calls[number] = call
        return {}

    def _question(self, header: Header, blobs: list[pa.Buffer]) -> Answer:
        """Asks the server something before its request is answered."""
        for piece in encode(header, blobs):
            self._channel.sendall(piece)
        return receive(self._channel)


def find(place: str) -> object:
    """Returns the object that 'module.name' names. BadSignature where there is none."""
    module_name, _, name = place.rpartition(".")
    module = importlib.import_module(module_name)
    if not hasattr(module, name):
        known = [
            n
            for n, v in vars(module).items()
            if callable(v) and getattr(v, "__module__", None) == module_name
        ]
        hint = f"there is {', '.join(known[:10])}" if known else None
        raise BadSignature(f"module '{module_name}' has no '{name}'", hint)
    return getattr(module, name)


def _limit_memory(limit: int) -> None:
    """Limits the memory of the process to `limit` bytes beyond those of the interpreter; a function
    that needs more gets a MemoryError."""
    used = next(
        int(line.split()[1])
        for line in Path("/proc/self/status").read_text().splitlines()
        if "VmData" in line
    )
    resource.setrlimit(resource.RLIMIT_DATA, (used * 1024 + limit,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main() -> None:
    fd, progress_fd, memory, folder, parent = sys.argv[1:6]
    die_with_parent(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # what users print is no answer
    sys.path.insert(0, folder)
    sys.argv = [sys.argv[0]]
    set_root(folder)
    forget_pandas()
    shared = memoryview(mmap.mmap(int(progress_fd), PROGRESS * 8)).cast("q")
    channel = socket.socket(fileno=int(fd))
    _limit_memory(int(memory))
    Worker(channel, shared, Path(folder)).serve()
    os._exit(0)  # threads of users' code do not keep the process alive


if __name__ == "__main__":
    main()
