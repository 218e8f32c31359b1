"""The rules of tasks: limits, files and secrets of the driver hold in every Python worker."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from parser.limits import Limits, present, use
from sqlengine.connectors.boundary.openings import TIMEOUT_S, Openings
from sqlengine.connectors.environment import Environment
from sqlengine.system.file_access import ANY_FILES, FileAccess
from sqlengine.system.lanes import ThreadLanes
from sqlengine.system.memory import usable_bytes
from sqlengine.system.network_access import ANY_HOSTS, NetworkAccess
from sqlengine.system.secrets import Secrets

# One for a worker: what hangs in it counts, whichever statement has called it.
_LANES: Final = ThreadLanes()
# No worker gets less memory than that, however many there are.
_LEAST_MEMORY: Final = 256 << 20


@dataclass(frozen=True)
class MachineShare:
    """A worker's share of the memory of its machine: four fifths of what a `heap` of Java (bytes)
    leaves, by `cores` of them; None for those of the machine on which it is asked."""

    heap: int
    cores: int | None = None

    def bytes(self) -> int:
        """Returns the share on this machine."""
        cores = self.cores or len(os.sched_getaffinity(0))
        return max((usable_bytes() - self.heap) * 4 // 5 // cores, _LEAST_MEMORY)


@dataclass(frozen=True)
class TaskRules:
    """The rules of the tasks of one plan.

    `timeout_s`: seconds that a call of a connector may take; `command`: what the hints of its
    errors name. `memory`: the bytes that a Python worker may take beyond those with which it
    began; None for any."""

    limits: Limits = field(default_factory=Limits)
    files: FileAccess = ANY_FILES
    secrets: Secrets = field(default_factory=Secrets)
    timeout_s: float = TIMEOUT_S
    command: str = "sql run"
    memory: int | MachineShare | None = None
    network: NetworkAccess = ANY_HOSTS

    @classmethod
    def of_driver(
        cls,
        files: FileAccess,
        secrets: Secrets,
        openings: Openings,
        memory: int | MachineShare | None,
        network: NetworkAccess,
    ) -> TaskRules:
        """Returns the rules that hold in this process, for its tasks."""
        timeout_s, command = openings.timeout_s, openings.command
        return cls(present(), files, secrets, timeout_s, command, memory, network)

    def apply(self) -> None:
        """Makes the rules those of this process. A worker runs tasks of one plan at a time."""
        use(self.limits)
        if (limit := self.memory_here()) is not None:
            _limit_memory(limit)

    def memory_here(self) -> int | None:
        """Returns the bytes that a worker may take on the machine on which it is asked."""
        return self.memory.bytes() if isinstance(self.memory, MachineShare) else self.memory

    def environment(self, clock: Callable[[], int]) -> Environment:
        """Returns what connectors may use that a task opens."""
        return Environment(
            None,
            clock,
            "",
            openings=Openings(_LANES, self.timeout_s, self.command),
            files=self.files,
            network=self.network,
            secrets=self.secrets,
        )


class _Began:
    """The data (bytes) with which this worker began."""

    size: int | None = None


def _limit_memory(limit: int) -> None:
    """Bounds what this worker may allocate: beyond it Python and Arrow raise MemoryError, which
    costs a statement, and the system ends no process."""
    if _Began.size is None:
        lines = Path("/proc/self/status").read_text().splitlines()
        (size,) = (line.split()[1] for line in lines if line.startswith("VmData"))
        _Began.size = int(size) << 10
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_Began.size + limit, hard))
