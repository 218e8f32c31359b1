"""A server in a process of its own that copies topics of Kafka, until it is killed.

python -m tests.connectors.kafka.life FOLDER SCRIPT"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

from sqlengine.config import Config
from sqlengine.engine import Engine

JOB = "copies"


def main(folder: str, script: str) -> None:
    """Runs the job of a script in a data folder, with checkpoints all the time, until SIGTERM."""
    engine = Engine(Config(data=Path(folder), checkpoint_ms=200))
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    engine.start()
    if JOB not in {job.name for job in engine.jobs()}:
        engine.submit(JOB, Path(script).read_text())
    print("ready", flush=True)
    ended.wait()
    engine.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
