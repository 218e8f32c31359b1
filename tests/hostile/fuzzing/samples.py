"""What is damaged: records of every format of topics, and messages of the broker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from sqlengine.broker.remote.client import RemoteBroker

COLUMNS: Final = (
    "c STRING, i INT, b BIGINT, d DECIMAL(10, 2), f DOUBLE, x BYTES, t TIMESTAMP(3), y DATE, o BOOLEAN,"
    " a ARRAY<INT>, m MAP<STRING, INT>, r ROW<u INT, v STRING>"
)
_ROW: Final = {
    "c": "text", "i": 7, "b": 2**40, "d": "12.50", "f": 1.5e9, "x": "AAEC", "t": "2024-05-01 12:00:00.123",
    "y": "2024-05-01", "o": True, "a": [1, None, 3], "m": {"k": 1}, "r": {"u": 1, "v": "w"},
}  # fmt: skip
_LINE: Final = (
    b"text,7,1099511627776,12.50,1.5e9,AAEC,2024-05-01 12:00:00.123,2024-05-01,true,1;2,,1;w"
)


def _encoded(value: object) -> bytes:
    return json.dumps(value).encode()


RECORDS: Final[Mapping[str, Sequence[bytes]]] = {
    "json": [_encoded(_ROW)],
    "csv": [_LINE],
    "raw": [b"a line"],
    "debezium-json": [
        _encoded({"before": None, "after": _ROW, "op": "c", "ts_ms": 1}),
        _encoded({"before": _ROW, "after": _ROW, "op": "u"}),
        _encoded({"before": _ROW, "after": None, "op": "d"}),
    ],
    "canal-json": [
        _encoded({"data": [_ROW], "old": [{"i": 6}], "type": kind, "isDdl": False})
        for kind in ("INSERT", "UPDATE", "DELETE", "CREATE")
    ],
    "maxwell-json": [
        _encoded({"data": _ROW, "old": {"i": 6}, "type": kind})
        for kind in ("insert", "update", "delete", "bootstrap-start")
    ],
    "ogg-json": [
        _encoded({"before": _ROW, "after": _ROW, "op_type": kind}) for kind in ("I", "U", "D", "T")
    ],
}


def _messages() -> list[bytes]:
    """What a client sends for each call, as its transport gets it."""
    sent: list[bytes] = []

    class _Kept(Exception):
        """The transport has what it is to send."""

    def keep(data: bytes, retryable: bool) -> bytes:
        sent.append(data)
        raise _Kept

    broker = RemoteBroker(keep, lambda: None)
    calls = (
        lambda: broker.create_topic("prey_m", shards=2),
        lambda: broker.append("prey_m", 0, [b"a", b"b"], timestamp_ms=1),
        lambda: broker.read("prey_m", 0, 0),
        lambda: broker.end_offset("prey_m", 1),
        lambda: broker.last_epoch("prey_m", 0, "w"),
        lambda: broker.committed("g", "prey_m"),
        broker.topics,
        lambda: broker.delete_topic("prey_m"),
    )
    for call in calls:
        try:
            call()
        except _Kept:
            continue
    assert len(sent) == len(calls)
    return sent


BROKER_MESSAGES: Final = _messages()
