"""CPU seconds and memory of servers, over all their lives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from benchmarks.measure import tree_cpu_s
from tests.servers.process import ServerProcess


class Usage:
    """`cpu_s` and `peak_mb` (resident memory) by the name of a server; a life counts once it is
    noted, just before its end."""

    def __init__(self, servers: Sequence[ServerProcess]) -> None:
        self._servers = servers
        self.cpu_s: dict[str, float] = defaultdict(float)
        self.peak_mb: dict[str, float] = {}

    def note(self, server: ServerProcess) -> None:
        """Adds the life that ends now."""
        self.cpu_s[server.name] += tree_cpu_s(server.pid)
        self.peak_mb[server.name] = max(self.peak_mb.get(server.name, 0.0), _peak_mb(server.pid))

    def end(self) -> None:
        """Adds the lives of all that run; nobody is killed after that."""
        for server in self._servers:
            self.note(server)


def _peak_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
