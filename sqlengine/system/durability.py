"""Types of options: when writes are synced, what is delivered once, where checkpoints are.

They have a module of their own because the command line needs them before it loads the broker."""

from __future__ import annotations

from typing import Literal, TypeAlias

# 'none' survives the death of the process, the others a power loss, too.
Fsync: TypeAlias = Literal["none", "interval", "epoch"]
# 'exactly-once': epochs are logged before their output, and repeated after a crash as they were.
# 'at-least-once': all rows since the last checkpoint are processed again after a crash, and their
# output appears again.
Delivery: TypeAlias = Literal["exactly-once", "at-least-once"]
# Where checkpoints are kept: a RocksDB folder for each graph, or one compacted topic for all.
Checkpoints: TypeAlias = Literal["rocksdb", "topic"]
