"""When what is written is forced to disk, and where checkpoints are. Apart from what writes, since
the command line names it before it loads that."""

from __future__ import annotations

from typing import Literal, TypeAlias

# 'none' is safe against the death of the process, the others against power loss, too.
Fsync: TypeAlias = Literal["none", "interval", "epoch"]
# 'exactly-once': what an epoch reads is written down before its output, and after a crash it is
# repeated as it was. 'at-least-once': after a crash all rows since the last checkpoint are
# processed again, and what they gave comes again.
Delivery: TypeAlias = Literal["exactly-once", "at-least-once"]
# Where checkpoints are kept: a RocksDB folder for each graph, or a compacted topic of the broker
# for all.
Checkpoints: TypeAlias = Literal["rocksdb", "topic"]
