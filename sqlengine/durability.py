"""When what is written is forced to disk, and where checkpoints are. Apart from what writes, since the command line names it before it loads that."""

from __future__ import annotations

from typing import Literal, TypeAlias

# 'none' is safe against the death of the process, the others against power loss, too.
Fsync: TypeAlias = Literal["none", "interval", "epoch"]
# Where checkpoints are kept: a RocksDB folder for each graph, or a compacted topic of the broker for all.
Checkpoints: TypeAlias = Literal["rocksdb", "topic"]
