"""A server of ours that copies the changes of a table, as a process that a test kills.

python -m tests.connectors.postgres_life FOLDER JOB.sql"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sqlengine.config import Config
from sqlengine.engine import Engine


def main(folder: Path, job: Path) -> None:
    """Runs until it is killed; says when the job runs."""
    engine = Engine(Config(data=folder, checkpoint_ms=200))
    engine.start()
    if not engine.jobs():
        engine.submit("copies", job.read_text())
    print("running", flush=True)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
