"""The main program of an instance process: a plain interpreter that reads its work from standard
input.

It dies with the server that started it; the next server starts others, which recover from what is
on disk."""

from __future__ import annotations

import logging
import os
import pickle  # noqa: TID251  between this process and its own child, never stored
import signal
import sys
import threading
from pathlib import Path
from types import FrameType

from sqlengine.broker.errors import BrokerUnreachable
from sqlengine.broker.remote.client import Transport
from sqlengine.broker.remote.network import NetworkTransport
from sqlengine.broker.remote.unix_socket import UnixSocketTransport
from sqlengine.cluster.instance import Instance
from sqlengine.cluster.subtask_stores import subtasks_folder
from sqlengine.executors.build import OperatorFactory
from sqlengine.machine import THIS
from sqlengine.state.stores import RocksStores
from sqlengine.system.memory import give_back, keep_for_reuse
from sqlengine.system.process import begin_log, die_with_parent, raise_file_limit
from sqlengine.system.spawning import Work

log = logging.getLogger("sqlengine")

FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def main() -> None:
    """Runs an instance until SIGTERM, or until the server is gone."""
    work: Work = pickle.load(sys.stdin.buffer)  # noqa: S301
    die_with_parent(work.parent)
    stopping = threading.Event()
    running: list[Instance] = []

    def end(number: int, frame: FrameType | None) -> None:
        stopping.set()
        for instance in running:
            instance.stop_soon()

    signal.signal(signal.SIGTERM, end)
    # Ctrl-C goes to the whole process group: the server stops its instances in good order itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    begin_log(FORMAT)
    raise_file_limit()
    sys.setswitchinterval(0.0001)
    keep_for_reuse()
    try:
        factory = OperatorFactory(THIS.rules(work.config), any_times=True)
        # The log of a subtask is trimmed at its checkpoint, which therefore must not be lost.
        stores = RocksStores(subtasks_folder(work.config), work.config.fsync)
        instance = Instance(work.place, _transport(work), work.config, THIS, factory, stores, _die)
        running.append(instance)
        give_back()
        log.info(
            "instance %s of %s is ready, process %d", work.place.name, work.place.graph, os.getpid()
        )
        instance.run(stopping.is_set)
    except BrokerUnreachable as error:
        log.error("instance %s ends: %s", work.place.name, error)
        os._exit(1)


def _transport(work: Work) -> Transport:
    address = work.socket
    return UnixSocketTransport(address) if isinstance(address, Path) else NetworkTransport(address)


def _die() -> None:
    """Ends the process at once: its thread does not come back from a call."""
    log.error("the process ends: a call into a library does not come back")
    os._exit(1)
