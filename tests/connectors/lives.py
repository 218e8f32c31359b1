"""Servers of ours in processes of their own, made to be killed."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from sqlengine.config import Config
from sqlengine.jobs.job import JobState
from sqlengine.service import Service
from tests.support import PATIENCE_S, eventually

JOB = "copy"
# Imports what a server needs once for all lives.
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


def _live(data: Path, text: str, port: int, ready: Connection, *, reads: bool) -> None:
    service = Service(Config(data=data, port=port, checkpoint_ms=100))
    service.start()
    engine = service.engine
    if JOB not in {job.name for job in engine.jobs()}:
        engine.submit(JOB, text)
    elif engine.job(JOB).state is JobState.STOPPED:  # killed while it was being deployed
        engine.start_job(JOB)
    if reads:
        eventually(lambda: any(view.asked for view in engine.receivers.views()))
    ready.send(True)
    threading.Event().wait()


@contextmanager
def life(
    data: Path, text: str, port: int = 0, *, awaited: bool = True, reads: bool = False
) -> Iterator[None]:
    """A server that runs the job `text`; it is killed at the end. With `awaited` the job runs when
    this begins, and where it `reads` what is received, that is taken."""
    ready, told = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(
        target=_live, args=(data, text, port, told), kwargs={"reads": reads}, daemon=True
    )
    process.start()
    told.close()
    try:
        if awaited:
            assert ready.poll(PATIENCE_S), "the server does not start"
            assert ready.recv()
        yield
    finally:
        process.kill()
        process.join()
        ready.close()
        process.close()
