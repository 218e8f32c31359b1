"""Numbers of the protocol: of requests, of answers, and bits of flags."""

from __future__ import annotations

from typing import Final

# Requests.
PULL: Final = 11
QUERY_OFFSET: Final = 14
UPDATE_OFFSET: Final = 15
CREATE_TOPIC: Final = 17
STATE: Final = 28
OFFSET_AT_TIME: Final = 29
MAX_OFFSET: Final = 30
MIN_OFFSET: Final = 31
LOCK_QUEUES: Final = 41
UNLOCK_QUEUES: Final = 42
CHECK_FILTER: Final = 46
ROUTE: Final = 105
CLUSTER: Final = 106
TOPIC_NAMES: Final = 206
DELETE_TOPIC: Final = 215
DELETE_ROUTE: Final = 216
SEND: Final = 310
SEND_BATCH: Final = 320

# Answers.
OK: Final = 0
SYSTEM_ERROR: Final = 1
SYSTEM_BUSY: Final = 2
FLUSH_LATE: Final = 10  # stored, and not yet on disk
COPY_MISSING: Final = 11  # stored, and no copy took it
COPY_LATE: Final = 12
ILLEGAL: Final = 13
NOT_AVAILABLE: Final = 14
NO_PERMISSION: Final = 16
NO_TOPIC: Final = 17
NOTHING_FOUND: Final = 19  # no message at this offset, yet
PULL_AGAIN: Final = 20  # the filter let nothing pass
OFFSET_MOVED: Final = 21
NO_OFFSET: Final = 22
# The same may work later.
PASSING: Final = (SYSTEM_ERROR, SYSTEM_BUSY, NOT_AVAILABLE)

# A message's flags.
COMPRESSED: Final = 1
PREPARED: Final = 4
BORN_V6: Final = 16
STORED_V6: Final = 32
INNER_BATCH: Final = 128
COMPRESSION_SHIFT: Final = 8
LZ4, ZSTD, ZLIB = 1, 2, 3

# A pull's flags.
SUSPEND: Final = 2
SUBSCRIPTION: Final = 4
