"""Files of topics that shrink or go while a server reads them: an error of their topic alone. The
server is a process of its own, which a mapped file that is cut would end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.harness import Process, User
from tests.support import eventually

COPY = """
CREATE TABLE torn_{name} (id BIGINT) WITH ('connector' = 'topic', 'topic' = '{name}', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset');
INSERT INTO alerts SELECT '{name}', id FROM torn_{name};
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    options = "settings={'restart-strategy.type': 'none'}"
    with Process(tmp_path_factory.mktemp("torn") / "data", options=options) as process:
        process.user().prepare()
        yield process
        assert process.end(signal.SIGTERM) == 0
        assert "Traceback" not in process.said()


@pytest.fixture
def user(process: Process) -> Iterator[User]:
    """A user; afterwards the job `all` has an alert for each event, once."""
    user = process.user()
    user.write("events", user.event("before"))
    yield user
    last = user.write("events", user.event("after"))
    found = eventually(
        lambda: len(a := [a["id"] for a in user.read("alerts") if a["rule"] == "all"]) > last and a
    )
    assert found == [e["id"] for e in user.read("events")]


def filled(user: User, name: str) -> Path:
    """A topic with 2,000 records that were read, and its only segment."""
    user.topic(name)
    user.write(name, *({"id": number, "text": "x" * 90} for number in range(2_000)))
    assert len(user.read(name)) == 2_000
    answer: Any = user.client.get(f"/api/v1/topics/{name}")
    (folder,) = answer["places"][0]["folders"]
    (segment,) = Path(folder).glob("*.seg")
    return segment


@pytest.mark.parametrize("size", [0, 100, 65_536])
def test_a_segment_that_is_cut_fails_its_readers_and_writers(user: User, size: int) -> None:
    name = f"cut{size}"
    segment = filled(user, name)
    user.submit(name, COPY.format(name=name))
    eventually(lambda: sum(a["rule"] == name for a in user.read("alerts")) == 2_000)
    os.truncate(segment, size)
    refused = user.refused(lambda: user.write(name, {"id": 1}))
    assert str(segment) in str(refused)
    refused = user.refused(
        lambda: user.client.get(f"/api/v1/topics/{name}/records", offset=1_900, limit=10)
    )
    assert str(segment) in str(refused)
    assert f"it was cut to {size:,} bytes" in str(refused)
    user.submit(name + "again", COPY.format(name=name).replace("torn_", "again_"))
    job = eventually(lambda: (j := user.job(name + "again"))["state"] == "failed" and j)
    assert segment.name in str(job)
