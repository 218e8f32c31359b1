"""Jobs over a topic with several shards, and what they must have written, in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.service.harness import User

SHARDS = 4
WORDS = [f"w{n}" for n in range(25)]
TABLES = """
CREATE TABLE readings (id BIGINT, word STRING, amount INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'topic', 'topic' = 'readings', 'format' = 'json');
CREATE TABLE alarms (id BIGINT, word STRING)
WITH ('connector' = 'topic', 'topic' = 'alarms', 'format' = 'json');
CREATE TABLE totals (word STRING, n BIGINT, amount BIGINT, PRIMARY KEY (word) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'totals', 'format' = 'json', 'upsert' = 'true');
CREATE TABLE minutes (word STRING, w TIMESTAMP(3), n BIGINT)
WITH ('connector' = 'topic', 'topic' = 'minutes', 'format' = 'json');
"""
JOBS = {
    "alarms": "INSERT INTO alarms SELECT id, word FROM readings WHERE amount > 50",
    "totals": "INSERT INTO totals SELECT word, COUNT(*), SUM(amount) FROM readings GROUP BY word",
    "minutes": (
        """INSERT INTO minutes SELECT word, window_start, COUNT(*)
        FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY word, window_start, window_end"""
    ),
}
# A row in each shard that ends all windows of the others; no job but `minutes` may see it.
_END = "2030-01-01 00:00:00"


@dataclass
class Workload:
    """Writes readings, and knows what must come of them."""

    user: User
    chance: random.Random
    written: list[dict[str, Any]] = field(default_factory=list)

    def prepare(self) -> None:
        for topic in ("readings", "alarms", "totals", "minutes"):
            compacted = {"compacted": True} if topic == "totals" else {}
            asked: dict[str, object] = {
                "name": topic,
                "shards": SHARDS if topic == "readings" else 1,
                **compacted,
            }
            self.user.client.post("/api/v1/topics", asked)
        self.user.submit("tables", TABLES)
        for name, sql in JOBS.items():
            self.user.submit(name, sql)

    def write(self, rows: int) -> None:
        """Rows in all shards, later and later."""
        for shard in range(SHARDS):
            batch = [self._reading() for _ in range(rows // SHARDS)]
            self.written += batch
            self.user.write("readings", *batch, shard=shard)

    def _reading(self) -> dict[str, Any]:
        number = len(self.written) + self.chance.randrange(1 << 40)
        second = len(self.written) // 10
        moment = f"2026-01-01 {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        word = self.chance.choice(WORDS)
        return {"id": number, "word": word, "amount": self.chance.randrange(100), "ts": moment}

    def end(self) -> None:
        """Ends all windows."""
        for shard in range(SHARDS):
            self.user.write(
                "readings", {"id": 0, "word": None, "amount": 0, "ts": _END}, shard=shard
            )

    def alarms(self) -> Counter[tuple[object, ...]]:
        return Counter((r["id"], r["word"]) for r in self.written if r["amount"] > 50)

    def totals(self) -> dict[object, tuple[int, int]]:
        """Rows and amount of each word."""
        found: dict[object, tuple[int, int]] = {}
        for r in self.written:
            n, amount = found.get(r["word"], (0, 0))
            found[r["word"]] = n + 1, amount + r["amount"]
        return found

    def minutes(self) -> Counter[tuple[object, ...]]:
        """Rows of each word and minute."""
        return Counter((r["word"], r["ts"][:17] + "00") for r in self.written)

    def alarms_found(self) -> Counter[tuple[object, ...]]:
        return Counter((r["id"], r["word"]) for r in self.user.read("alarms"))

    def totals_found(self) -> dict[object, tuple[int, int]]:
        return {
            r["word"]: (r["n"], r["amount"])
            for r in self.user.read("totals")
            if r["word"] is not None
        }

    def minutes_found(self) -> Counter[tuple[object, ...]]:
        """Each row once with its number; a window that comes twice counts twice."""
        found: Counter[tuple[object, ...]] = Counter()
        for r in self.user.read("minutes"):
            found[r["word"], r["w"]] += r["n"]
        return found
