"""A life of an engine that reads and publishes MQTT, in a process of its own, until it is killed."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from sqlengine.config import Config
from sqlengine.engine import Engine
from tests.support import PATIENCE_S

# Imports what an engine needs once for all lives.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


def _live(data: Path, text: str, ready: Connection, *, reads: bool) -> None:
    engine = Engine(Config(data=data, checkpoint_ms=100))
    engine.start()
    if not engine.jobs():
        engine.submit("j", text)
    while reads and not any(view.asked for view in engine.receivers.views()):
        time.sleep(0.01)
    ready.send(True)
    while True:
        time.sleep(1)


@contextmanager
def life(data: Path, text: str, *, reads: bool = True) -> Iterator[None]:
    """An engine that runs the job `text`, and takes messages where it `reads` any; it is killed at
    the end."""
    ready, told = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(
        target=_live, args=(data, text, told), kwargs={"reads": reads}, daemon=True
    )
    process.start()
    told.close()
    try:
        assert ready.poll(PATIENCE_S), "the engine does not start"
        assert ready.recv()
        yield
    finally:
        process.kill()
        process.join()
        ready.close()
        process.close()
