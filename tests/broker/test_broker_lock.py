"""One server per folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sqlengine.broker.embedded import EmbeddedBroker
from sqlengine.broker.errors import CorruptSegment, DataFolderLocked
from sqlengine.broker.lock import FolderLock

ROOT = Path(__file__).parents[2]
HOLD = (
    "import sys, sqlengine.broker.lock as l, pathlib; l.FolderLock(pathlib.Path(sys.argv[1]));"
    " print(flush=True); input()"
)


def test_a_second_broker_is_refused_and_told_who_holds_the_folder(folder: Path) -> None:
    first = EmbeddedBroker(folder)
    with pytest.raises(DataFolderLocked, match=f"in use by the process {os.getpid()}") as error:
        EmbeddedBroker(folder)
    assert f"kill {os.getpid()}" in str(error.value.hint)
    first.close()
    EmbeddedBroker(folder).close()


def test_the_lock_goes_with_its_process(folder: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(DataFolderLocked, match=f"in use by the process {holder.pid}"):
            FolderLock(folder)
        holder.kill()
    lock = FolderLock(folder)
    lock.release()
    lock.release()


def test_a_broker_that_cannot_open_holds_no_lock(folder: Path) -> None:
    EmbeddedBroker(folder).close()
    definition = folder / "topics" / "_offsets.topic" / "topic.json"
    definition.write_bytes(b"{")
    for _ in range(2):
        with pytest.raises(CorruptSegment, match="is damaged"):
            EmbeddedBroker(folder)
