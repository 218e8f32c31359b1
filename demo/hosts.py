"""Hosts, their users and running processes, and the events that they give."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

WINDOWS, LINUX = "windows", "linux"
FIELDS = (
    "ts", "host", "os", "event_type", "pid", "ppid", "image", "command_line", "parent_image", "parent_command_line",
    "user", "hashes", "target_filename", "protocol", "initiated", "src_ip", "src_port", "dst_ip", "dst_port",
    "dst_host", "outcome", "scenario",
)  # fmt: skip
Event: TypeAlias = dict[str, str | int | bool | None]


def stamp(time: datetime) -> str:
    """Time as Sysmon writes it, and SQL reads it: UTC, with milliseconds."""
    return time.strftime("%Y-%m-%d %H:%M:%S.") + f"{time.microsecond // 1000:03d}"


def blank(event_type: str, host: str, os: str) -> Event:
    """An event with all FIELDS, of which only these are known."""
    return {**dict.fromkeys(FIELDS), "host": host, "os": os, "event_type": event_type}


def hashes(image: str) -> str:
    """Returns the hashes that Sysmon reports of a file, the same for the same program."""
    digest = hashlib.sha256(image.lower().encode()).hexdigest().upper()
    return f"MD5={digest[:32]},SHA256={digest},IMPHASH={digest[32:]}"


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    image: str
    command_line: str
    user: str


@dataclass(slots=True)
class Host:
    """A machine: `running` holds its long-lived processes by role ('shell' is what users start
    programs from)."""

    name: str
    os: str
    ip: str
    users: list[str]
    rng: random.Random
    running: dict[str, Process] = field(default_factory=dict)
    last_pid: int = 400

    def start(self, image: str, command_line: str, user: str) -> Process:
        """A process without an event, as those that ran before anybody watched."""
        self.last_pid += self.rng.randrange(1, 9) * (4 if self.os == WINDOWS else 1)
        return Process(self.last_pid, image, command_line, user)

    def spawn(
        self, parent: Process, image: str, command_line: str, user: str | None = None
    ) -> tuple[Process, Event]:
        """A new process and its process_creation event."""
        process = self.start(image, command_line, user or parent.user)
        event = self._event("process_creation", process)
        event.update(
            ppid=parent.pid, parent_image=parent.image, parent_command_line=parent.command_line
        )
        event.update(hashes=hashes(image) if self.os == WINDOWS else None)
        return process, event

    def run(self, parent: Process, image: str, command_line: str, user: str | None = None) -> Event:
        """The process_creation event of a process that does nothing else of note."""
        return self.spawn(parent, image, command_line, user)[1]

    def write(self, process: Process, target: str) -> Event:
        """`process` creates or replaces the file `target`."""
        return {**self._event("file", process), "target_filename": target}

    def connect(
        self, process: Process, ip: str, port: int, name: str | None = None, protocol: str = "tcp"
    ) -> Event:
        """`process` opens a connection."""
        event = self._event("network", process)
        event.update(
            protocol=protocol,
            initiated=True,
            src_ip=self.ip,
            src_port=self.rng.randrange(49152, 65536),
        )
        event.update(dst_ip=ip, dst_port=port, dst_host=name)
        return event

    def login(self, user: str, source: str, outcome: str) -> Event:
        """Somebody at `source` logs in as `user`; `outcome` is success or failure."""
        daemon = self.running["login"]
        event = self._event("authentication", daemon)
        event.update(
            user=user, src_ip=source, src_port=self.rng.randrange(49152, 65536), dst_ip=self.ip
        )
        event.update(
            dst_port=3389 if self.os == WINDOWS else 22,
            protocol="tcp",
            initiated=False,
            outcome=outcome,
        )
        return event

    def _event(self, event_type: str, process: Process) -> Event:
        event = blank(event_type, self.name, self.os)
        event.update(
            pid=process.pid,
            image=process.image,
            command_line=process.command_line,
            user=process.user,
        )
        return event


NAMES = (
    "alice",
    "bjorn",
    "chen",
    "dilara",
    "emeka",
    "fatima",
    "goran",
    "hana",
    "ivan",
    "julia",
    "kofi",
    "lena",
)
SYSTEM32 = "C:\\Windows\\System32\\"


class Network:
    """The company: twelve workstations, two Windows servers, four Linux servers. `weights`: how
    busy each host is."""

    def __init__(self, rng: random.Random) -> None:
        self.workstations = [
            _windows(f"WS-{number:03d}", f"10.1.1.{10 + number}", user, rng)
            for number, user in enumerate(NAMES, 1)
        ]
        self.servers = [
            _windows("DC-01", "10.1.0.10", "svc_backup", rng),
            _windows("FILES-01", "10.1.0.11", "svc_files", rng),
        ]
        self.linux = [
            _linux(name, f"10.1.2.{number}", rng)
            for number, name in enumerate(("web-1", "web-2", "db-1", "ci-1"), 10)
        ]
        self.hosts = [*self.workstations, *self.servers, *self.linux]
        self.weights = [2.0] * 12 + [3.0] * 2 + [6.0] * 4


def _windows(name: str, ip: str, user: str, rng: random.Random) -> Host:
    account = f"CORP\\{user}"
    host = Host(name, WINDOWS, ip, [account], rng)
    system = "NT AUTHORITY\\SYSTEM"
    for role, image, command_line, owner in (
        ("services", f"{SYSTEM32}services.exe", f"{SYSTEM32}services.exe", system),
        (
            "svchost",
            f"{SYSTEM32}svchost.exe",
            f"{SYSTEM32}svchost.exe -k netsvcs -p -s Schedule",
            system,
        ),
        ("login", f"{SYSTEM32}lsass.exe", f"{SYSTEM32}lsass.exe", system),
        ("shell", "C:\\Windows\\explorer.exe", "C:\\Windows\\Explorer.EXE", account),
    ):
        host.running[role] = host.start(image, command_line, owner)
    return host


def _linux(name: str, ip: str, rng: random.Random) -> Host:
    host = Host(name, LINUX, ip, ["root", "deploy", "www-data", "postgres"], rng)
    for role, image, command_line, owner in (
        ("init", "/usr/lib/systemd/systemd", "/sbin/init", "root"),
        (
            "login",
            "/usr/sbin/sshd",
            "sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups",
            "root",
        ),
        ("cron", "/usr/sbin/cron", "/usr/sbin/cron -f -P", "root"),
        ("web", "/usr/sbin/nginx", "nginx: worker process", "www-data"),
        ("shell", "/usr/bin/bash", "-bash", "deploy"),
    ):
        host.running[role] = host.start(image, command_line, owner)
    return host
