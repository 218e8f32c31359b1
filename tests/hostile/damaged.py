"""A data folder that a server has left cleanly, to be damaged; and what must be true of it then."""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parser.errors import SqlError
from tests.service.harness import Process, User, running
from tests.support import eventually

SUM = """
CREATE TABLE sums (word STRING, n BIGINT, PRIMARY KEY (word) NOT ENFORCED)
WITH ('connector' = 'topic', 'topic' = 'sums', 'format' = 'json', 'key.fields' = 'word', 'upsert' = 'true');
INSERT INTO sums SELECT word, COUNT(*) FROM events GROUP BY word;
"""
WORDS = [f"w{number}" for number in range(5)]


def leave(data: Path) -> None:
    """Runs a server over the folder: `all` has written an alert for each of five events, `sum`
    has counted their words."""
    with Process(data) as process:
        user = process.user()
        user.prepare()
        user.submit("sum", SUM)
        for number, word in enumerate(WORDS):
            user.write("events", {"id": number, "word": word})
        eventually(lambda: len(user.read("sums")) == len(WORDS))
        eventually(lambda: len(user.read("alerts")) == len(WORDS))
        user.client.post("/api/v1/jobs/sum/savepoints")
        assert process.end(signal.SIGTERM) == 0


def goes_on(user: User) -> None:
    """The jobs whose topics are sound go on where they were, and no row is lost or doubled."""
    topics: Any = user.client.get("/api/v1/topics")
    hurt = {t["name"] for t in topics["topics"] if t.get("damage")}
    if "events" in hurt:
        return
    before = {**dict.fromkeys(WORDS, 0), "id": len(user.read("events"))}
    counts = [sum(e["word"] == word for e in user.read("events")) for word in WORDS]
    for number, word in enumerate(WORDS):
        user.write("events", {"id": before["id"] + number, "word": word})
    if "alerts" not in hurt:
        wanted = list(range(before["id"] + len(WORDS)))
        eventually(
            lambda: [a["id"] for a in user.read("alerts")] == wanted, lambda: user.read("alerts")
        )
    if "sums" not in hurt:
        sums = dict(zip(WORDS, [count + 1 for count in counts], strict=True))
        eventually(
            lambda: {r["word"]: r["n"] for r in user.read("sums")} == sums,
            lambda: user.read("sums"),
        )


def files_of(data: Path) -> list[Path]:
    return sorted(p for p in data.rglob("*") if p.is_file() and p.stat().st_size)


def damage(path: Path, chance: random.Random) -> str:
    """Flips a bit of the file, or cuts it. Returns what was done."""
    content = bytearray(path.read_bytes())
    place = chance.randrange(len(content))
    if chance.random() < 0.7:
        content[place] ^= 1 << chance.randrange(8)
        path.write_bytes(content)
        return f"flipped a bit of byte {place} of {path}"
    os.truncate(path, place)
    return f"cut {path} to {place} bytes"


def survives(
    base: Path, work: Path, seed: int, records: Callable[[], list[logging.LogRecord]]
) -> None:
    """One file of a copy is damaged: the server goes on, or names what is damaged."""
    data = work / "data"
    shutil.rmtree(data, ignore_errors=True)
    shutil.copytree(base, data)
    chance = random.Random(seed)
    path = chance.choice(files_of(data))
    done = damage(path, chance)
    try:
        with running(data) as (_, user):
            goes_on(user)
    except SqlError as error:
        said = f"{error}{error.detail or ''}{error.hint or ''}"
        assert path.relative_to(data).parts[0] in said, (done, said)
        named = any(str(p) in said for p in (path, *path.parents) if p.is_relative_to(data))
        assert named, (done, said)
    assert not [r.getMessage() for r in records() if r.exc_info], done
