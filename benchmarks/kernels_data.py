"""The rows that expressions are measured over: like those of logs and orders, made from a seed,
hardly one value twice but for the columns that are categories."""

from __future__ import annotations

import json
import random
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import datetime, timedelta
from urllib.parse import quote_plus

import pyarrow as pa

from parser.grammar.datatypes import parse_type
from parser.types import STRING, Column, DataType, Schema
from sqlengine.batch import Batch
from udf.casts.cast import convert

NULLS = 0.02
_WORDS = (
    "system32 windows power shell update service network driver cache config users temp program"
    " files".split()
)
_NAMES = (
    "chrome.exe",
    "cmd.exe",
    "python3",
    "svchost.exe",
    "sshd",
    "curl",
    "explorer.exe",
    "java",
    "nginx",
    "node",
)
_START = datetime(2024, 1, 1)

# A value as JSON; the row's number is there for what should not repeat.
Maker = Callable[[random.Random, int], object]


def _text(r: random.Random, i: int) -> str:
    """48 characters."""
    path = "\\".join(r.choice(_WORDS) for _ in range(4))
    return f"C:\\{path}\\{i:05d}.exe -{r.choice(_WORDS)} {r.getrandbits(64):x}"[:48].ljust(48, "x")


def _moment(r: random.Random) -> datetime:
    return _START + timedelta(milliseconds=r.randrange(366 * 86_400_000))


def _document(r: random.Random, i: int) -> str:
    """About 200 bytes of JSON."""
    fields = {
        "id": i,
        "user": f"user-{r.randrange(100_000)}",
        "net": {
            "host": f"host-{r.randrange(1000)}.example.org",
            "port": r.randrange(65536),
            "ok": r.random() < 0.5,
        },
        "amount": round(r.random() * 1000, 2),
        "tags": [r.choice(_WORDS) for _ in range(3)],
        "message": " ".join(r.choice(_WORDS) for _ in range(6)),
        "none": None,
    }
    return json.dumps(fields)


def _ints(r: random.Random, i: int) -> list[int | None]:
    return [None if r.random() < NULLS else r.randrange(20) for _ in range(r.randrange(1, 9))]


def _map(r: random.Random, i: int) -> dict[str, int]:
    return {k: r.randrange(1000) for k in r.sample("abcdefgh", 4)}


def _url(r: random.Random, i: int) -> str:
    return f"https://www.example.org:8080/{r.choice(_WORDS)}/{i}?q={r.getrandbits(32):x}&page={r.randrange(9)}#top"


COLUMNS: dict[str, tuple[str, Maker]] = {
    "i": ("INT", lambda r, i: r.randrange(10_000)),
    "i2": ("INT", lambda r, i: r.randrange(1, 10_000)),
    "k": ("INT", lambda r, i: r.randrange(1, 4)),
    "l": ("BIGINT", lambda r, i: r.randrange(2**31)),
    "l2": ("BIGINT", lambda r, i: r.randrange(1, 2**31)),
    "d": ("DOUBLE", lambda r, i: round(r.random() * 1000, 3) + 0.001),
    "d2": ("DOUBLE", lambda r, i: round(r.random() * 1000, 3) + 0.001),
    "q": ("DOUBLE", lambda r, i: r.random()),
    "n": ("DECIMAL(10, 2)", lambda r, i: f"{r.randrange(1, 10**6) / 100:.2f}"),
    "n2": ("DECIMAL(10, 2)", lambda r, i: f"{r.randrange(1, 10**6) / 100:.2f}"),
    "b": ("BOOLEAN", lambda r, i: r.random() < 0.5),
    "b2": ("BOOLEAN", lambda r, i: r.random() < 0.5),
    "c": ("STRING", lambda r, i: r.choice(_NAMES)),
    "c2": ("STRING", lambda r, i: r.choice(_NAMES)),
    "t": ("STRING", _text),
    "t2": ("STRING", _text),
    "sp": ("STRING", lambda r, i: f"  {r.choice(_WORDS)} {i}  "),
    "csv": ("STRING", lambda r, i: ",".join(f"{r.getrandbits(24):x}" for _ in range(5))),
    "kv": (
        "STRING",
        lambda r, i: ",".join(f"{k}={r.randrange(1000)}" for k in r.sample("abcdefgh", 4)),
    ),
    "num": ("STRING", lambda r, i: str(r.randrange(10**6))),
    "price": ("STRING", lambda r, i: f"{r.randrange(10**6) / 100:.2f}"),
    "dt": ("DATE", lambda r, i: str(_moment(r).date())),
    "tm": ("TIME(0)", lambda r, i: f"{_moment(r):%H:%M:%S}"),
    "ts": ("TIMESTAMP(3)", lambda r, i: f"{_moment(r):%Y-%m-%d %H:%M:%S.%f}"[:-3]),
    "ts2": ("TIMESTAMP(3)", lambda r, i: f"{_moment(r):%Y-%m-%d %H:%M:%S.%f}"[:-3]),
    "lz": ("TIMESTAMP_LTZ(3)", lambda r, i: f"{_moment(r):%Y-%m-%d %H:%M:%S.%f}"[:-3] + "Z"),
    "lz2": ("TIMESTAMP_LTZ(3)", lambda r, i: f"{_moment(r):%Y-%m-%d %H:%M:%S.%f}"[:-3] + "Z"),
    "dts": ("STRING", lambda r, i: str(_moment(r).date())),
    "tss": ("STRING", lambda r, i: f"{_moment(r):%Y-%m-%d %H:%M:%S}"),
    "tsp": ("STRING", lambda r, i: f"{_moment(r):%d/%m/%Y %H:%M:%S}"),
    "j": ("STRING", _document),
    "qt": ("STRING", lambda r, i: json.dumps(_text(r, i))),
    "url": ("STRING", _url),
    "enc": ("STRING", lambda r, i: quote_plus(_text(r, i))),
    "h": ("STRING", lambda r, i: f"{r.getrandbits(128):032X}"),
    "h64": ("STRING", lambda r, i: b64encode(_text(r, i).encode()).decode()),
    "y": ("BYTES", lambda r, i: b64encode(_text(r, i).encode()).decode()),
    "a": ("ARRAY<INT>", _ints),
    "a2": ("ARRAY<INT>", _ints),
    "w": ("ARRAY<STRING>", lambda r, i: [r.choice(_WORDS) for _ in range(r.randrange(1, 9))]),
    "m": ("MAP<STRING, INT>", _map),
    "m2": ("MAP<STRING, INT>", _map),
}
SCHEMA = Schema(tuple(Column(name, parse_type(kind)) for name, (kind, _) in COLUMNS.items()))


def values(name: str, rows: int, seed: int = 0) -> list[object]:
    """A column as JSON has it: times as texts, bytes in base 64; NULL in two of a hundred rows."""
    _, make = COLUMNS[name]
    r = random.Random(f"{name} {seed}")
    return [None if r.random() < NULLS else make(r, i) for i in range(rows)]


def batch(rows: int, seed: int = 0) -> Batch:
    """A batch of all columns."""
    return Batch(SCHEMA, tuple(_column(values(c.name, rows, seed), c.type) for c in SCHEMA), rows)


def _column(found: list[object], kind: DataType) -> pa.Array:
    if not isinstance(found[0] or found[1] or found[2], str) or kind.is_string:
        pairs = [list(v.items()) if isinstance(v, dict) else v for v in found]
        return pa.array(pairs, kind.arrow)
    texts = pa.array([None if v is None else str(v).removesuffix("Z") for v in found], pa.string())
    if kind.is_binary:
        decoded = [None if v is None else b64decode(v) for v in texts.to_pylist()]
        return pa.array(decoded, kind.arrow)
    return convert(texts, STRING, kind).values
