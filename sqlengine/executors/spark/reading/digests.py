"""Digests of what tasks have read of tables that keep no history: one for each split, in a file
beside the state of the epoch before any of its rows leaves the task. So whatever is repeated (a
task, a job of Spark, the epoch after the death of the driver) has the rows that there were, or
fails.

This module does not import Spark."""

from __future__ import annotations

import os
from secrets import token_hex

from sqlengine.executors.spark.splits import InputSplit
from sqlengine.executors.spark.state_files import epoch_name, local_path
from sqlengine.executors.spark.tasks.answers import split_name
from sqlengine.executors.spark.worker import Step


def is_as_before(folder: str, step: Step, split: InputSplit, digest: str) -> bool:
    """Returns whether the rows of a split have the digest with which they were read first; that is
    kept in `folder` (a URI) until a checkpoint has passed the epoch."""
    path = local_path(f"{folder}/state/{epoch_name(step)}/{split_name(split)}.read")
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}-{token_hex(8)}")
    with scratch.open("w") as file:
        file.write(digest)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(scratch, path)  # whole, and only where no other attempt was first
    except FileExistsError:
        return path.read_text() == digest
    finally:
        scratch.unlink()
    return True
