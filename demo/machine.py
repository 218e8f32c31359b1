"""This machine's own processes and connections, watched live from /proc, as events of the form of
`demo.events`.

No rights are needed: what may not be read is left out of an event. A process that lives for less
than the interval may be missed; so may a pid that is used again within it.
"""

from __future__ import annotations

import os
import pwd
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from demo.hosts import LINUX, Event, blank, stamp

INTERVAL_S = 0.25
MAX_EVENTS_PER_LOOK = 1000
TABLES = {"tcp": "tcp", "tcp6": "tcp", "udp": "udp", "udp6": "udp"}
ESTABLISHED, LISTENING = "01", "0A"
Address: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Seen:
    """A process: unknown fields are None."""

    pid: int
    ppid: int
    image: str | None
    command_line: str | None
    user: str | None


@dataclass(frozen=True, slots=True)
class Connection:
    """A connected socket: `inode` leads to its process. `initiated` is False where the local port
    is listening."""

    protocol: str
    local: Address
    remote: Address
    inode: str
    initiated: bool


def watch(
    stopped: Callable[[], bool] = lambda: False, interval_s: float = INTERVAL_S
) -> Iterator[Event]:
    """New processes and connections from now on, until `stopped()`; looks every `interval_s`.

    A look gives at most MAX_EVENTS_PER_LOOK events; what is over that is skipped, not queued.
    """
    machine = Machine()
    machine.look()
    while not stopped():
        yield from machine.look()
        time.sleep(interval_s)


class Machine:
    """Reports new processes and connections since the last look."""

    def __init__(self, proc: Path = Path("/proc"), host: str | None = None) -> None:
        self._proc = proc
        self._host = host or socket.gethostname()
        self._processes: dict[int, Seen] = {}
        self._connections: set[Connection] = set()

    def look(self) -> list[Event]:
        """Events for what is new since the last look; at the first, for everything."""
        now = stamp(datetime.now(UTC))
        events = [self._created(process) for process in self._new_processes()]
        events += self._new_connections(room=MAX_EVENTS_PER_LOOK - len(events))
        return [{**event, "ts": now} for event in events[:MAX_EVENTS_PER_LOOK]]

    def _new_processes(self) -> list[Seen]:
        pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        known = {pid: process for pid, process in self._processes.items() if pid in pids}
        new = {
            pid: process
            for pid in sorted(pids - known.keys())
            if (process := read_process(self._proc, pid))
        }
        self._processes = known | new
        return list(new.values())

    def _created(self, process: Seen) -> Event:
        parent = self._processes.get(process.ppid)
        event = self._event("process_creation", process)
        event["ppid"] = process.ppid
        if parent:
            event.update(parent_image=parent.image, parent_command_line=parent.command_line)
        return event

    def _new_connections(self, room: int) -> list[Event]:
        current = read_connections(self._proc)
        new = sorted(current - self._connections, key=lambda c: (c.protocol, c.local, c.remote))[
            : max(room, 0)
        ]
        self._connections = current
        owners = self._owners({connection.inode for connection in new}) if new else {}
        return [self._connected(connection, owners.get(connection.inode)) for connection in new]

    def _owners(self, inodes: set[str]) -> dict[str, Seen]:
        """The process of each socket, as far as we may see it."""
        links = {f"socket:[{inode}]": inode for inode in inodes}
        owners: dict[str, Seen] = {}
        for pid, process in self._processes.items():
            for target in _descriptors(self._proc / str(pid) / "fd"):
                if target in links:
                    owners.setdefault(links[target], process)
            if len(owners) == len(inodes):
                break
        return owners

    def _connected(self, connection: Connection, process: Seen | None) -> Event:
        event = self._event("network", process)
        source, target = connection.local, connection.remote
        if not connection.initiated:
            source, target = target, source
        event.update(protocol=connection.protocol, initiated=connection.initiated)
        event.update(src_ip=source[0], src_port=source[1], dst_ip=target[0], dst_port=target[1])
        return event

    def _event(self, event_type: str, process: Seen | None) -> Event:
        event = blank(event_type, self._host, LINUX)
        if process:
            event.update(
                pid=process.pid,
                image=process.image,
                command_line=process.command_line,
                user=process.user,
            )
        return event


def read_process(proc: Path, pid: int) -> Seen | None:
    """The process, or None when it is gone."""
    folder = proc / str(pid)
    try:
        status = (folder / "stat").read_text(errors="replace")
        words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        user = _user(folder.stat().st_uid)
    except OSError:
        return None
    name, _, rest = status.partition("(")[2].rpartition(")")
    return Seen(
        pid, int(rest.split()[1]), _image(folder) or name, " ".join(words).strip() or None, user
    )


def _image(folder: Path) -> str | None:
    """The program's file: hidden for other users' processes, and kernel threads have none."""
    try:
        return str((folder / "exe").readlink())
    except OSError:
        return None


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _descriptors(folder: Path) -> list[str]:
    try:
        return [link for name in os.listdir(folder) if (link := _link(folder / name))]
    except OSError:
        return []


def _link(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def read_connections(proc: Path) -> set[Connection]:
    """The connected TCP and UDP sockets, IPv4 and IPv6; those without an owner (in TIME_WAIT) are
    left out."""
    rows = [(TABLES[table], row) for table in TABLES for row in _rows(proc / "net" / table)]
    listening = {
        (protocol, parse_address(row[1])[1]) for protocol, row in rows if row[3] == LISTENING
    }
    found = set()
    for protocol, row in rows:
        if row[3] != ESTABLISHED or row[9] == "0":
            continue
        local, remote = parse_address(row[1]), parse_address(row[2])
        if remote[1]:
            found.add(
                Connection(protocol, local, remote, row[9], (protocol, local[1]) not in listening)
            )
    return found


def _rows(path: Path) -> list[list[str]]:
    try:
        lines = path.read_text().splitlines()[1:]
    except OSError:  # no IPv6, or no /proc/net in this sandbox
        return []
    return [row for line in lines if len(row := line.split()) > 9]


def parse_address(text: str) -> Address:
    """`0100007F:1F90` -> ("127.0.0.1", 8080): words of 32 bits in the order of the machine."""
    address, port = text.split(":")
    packed = b"".join(bytes.fromhex(address[at : at + 8])[::-1] for at in range(0, len(address), 8))
    if packed[:12] == b"\0" * 10 + b"\xff\xff":  # IPv4 within IPv6
        packed = packed[12:]
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed), int(
        port, 16
    )
