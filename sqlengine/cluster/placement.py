"""Placements start the instances of a server, each in its own way, and say where they are; a
supervisor needs to know no more."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Protocol

from sqlengine.broker.remote.wire import Served
from sqlengine.config import Config
from sqlengine.machine import Machine
from sqlengine.system.spawning import Place, Process, Work


class Placement(Protocol):
    """Starts instances, which reach the server's broker through a door of their own."""

    def start(self, place: Place) -> Process:
        """Starts an instance, without waiting until it runs. OSError where that cannot be."""

    def host(self, process: Process) -> str | None:
        """Returns the host that the instance runs on; None for the server's own, or none yet."""

    def problem(self, process: Process) -> str | None:
        """Returns why an instance that was started does not run; None if it does."""

    def close(self) -> None:
        """Closes the door, once no instance is needed any more."""


class LocalProcesses:
    """Instances as child processes of the server, over a Unix socket."""

    def __init__(self, broker: Served, config: Config, machine: Machine) -> None:
        self._config = config
        self._machine = machine
        self._door = machine.door(broker)

    def start(self, place: Place) -> Process:
        return self._machine.spawn(
            Work(place, instance_config(self._config), self._door.path, os.getpid())
        )

    def host(self, process: Process) -> str | None:
        """See `Placement`."""
        return None

    def problem(self, process: Process) -> str | None:
        """See `Placement`."""
        return None

    def close(self) -> None:
        self._door.close()


def instance_config(config: Config) -> Config:
    """Returns the configuration that an instance has: it runs operators itself, whatever the server
    does, and has no use for what clients must show."""
    return replace(config, target="embedded", token=None, access=None)
