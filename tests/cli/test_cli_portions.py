"""`producer | sql topic write t`: a line is written soon after it came."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue
from typing import IO

import pytest

from sqlengine.cli.portions import BYTES_PER_REQUEST, LINES_PER_REQUEST, finishing, portions
from tests.service.harness import User
from tests.support import ROOT, eventually


@contextmanager
def producer(user: User, topic: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """`sql topic write` behind a pipe, with the end that a producer writes to."""
    user.topic(topic)
    command = [sys.executable, "-m", "sqlengine.cli", "topic", "write", topic]
    process = subprocess.Popen(
        [*command, "--server", user.client.server],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )
    assert process.stdin is not None
    try:
        yield process, process.stdin
    finally:
        process.kill()
        process.communicate()


PLACE = "/api/v1/topics/deleted/records"


def has(user: User, count: int) -> bool:
    return len(user.read("slow")) == count


def test_lines_of_a_slow_producer_do_not_wait_for_its_end(user: User) -> None:
    with producer(user, "slow") as (process, pipe):
        for number in range(3):
            pipe.write(b'{"n": %d}\n{"n": ' % number)
            eventually(partial(has, user, 2 * number + 1), f"line {number}")
            pipe.write(b"-1}\n")
            eventually(partial(has, user, 2 * number + 2), "the other half")
        process.communicate()
        assert process.returncode == 0
    assert [r["n"] for r in user.read("slow")] == [0, -1, 1, -1, 2, -1]


def test_ctrl_c_ends_with_the_number_of_records(user: User) -> None:
    with producer(user, "broken-off") as (process, pipe):
        pipe.write(b'{"n": 0}\nhalf a li')
        eventually(lambda: user.read("broken-off"), "the first line")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate()
        assert (process.returncode, out) == (0, b"broken-off: 1 record\n")


def test_ctrl_c_within_a_request_waits_for_its_answer() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with finishing() as interrupted:
            assert not interrupted()
            signal.raise_signal(signal.SIGINT)
            assert interrupted()
            with pytest.raises(KeyboardInterrupt):  # whoever cannot wait
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_tells_what_was_written_before_it(user: User) -> None:
    with producer(user, "deleted") as (process, pipe):
        pipe.write(b"one\ntwo\n")
        eventually(lambda: '"next_offset":2' in user.client.get_text(PLACE, offset=0))
        user.client.delete("/api/v1/topics/deleted")
        pipe.write(b"three\n")
        _, err = process.communicate()
        assert process.returncode == 1
        assert err.decode().splitlines()[:2] == [
            "deleted: 2 records before this:",
            "broker error: topic 'deleted' does not exist",
        ]


def test_a_line_waits_a_tenth_of_a_second_at_most() -> None:
    reading, writing = os.pipe()
    came: SimpleQueue[tuple[float, bytes]] = SimpleQueue()

    def read() -> None:
        with os.fdopen(reading, "rb") as file:
            for portion in portions(file):
                came.put((time.monotonic(), portion))

    reader = threading.Thread(target=read)
    reader.start()
    sent = time.monotonic()
    os.write(writing, b"one\n")
    os.write(writing, b"two\nhal")
    at, portion = came.get()
    while portion != b"one\ntwo\n":
        at, more = came.get()
        portion += more
    assert 0.09 < at - sent < 5  # the upper bound is that of a busy machine
    os.write(writing, b"f\nend")
    os.close(writing)
    reader.join()
    rest = b"".join(came.get()[1] for _ in range(came.qsize()))
    assert rest == b"half\nend\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"x", [2]),
        (b"x\n" * (2 * LINES_PER_REQUEST + 1), [2 * LINES_PER_REQUEST] * 2 + [2]),
        ((b"x" * (BYTES_PER_REQUEST + 1) + b"\n") + b"y\n", [BYTES_PER_REQUEST + 2, 2]),
    ],
    ids=["nothing", "no end", "many lines", "a long line"],
)
def test_portions_are_limited(text: bytes, expected: list[int]) -> None:
    found = list(portions(io.BufferedReader(io.BytesIO(text))))
    assert [len(p) for p in found] == expected
    assert b"".join(found).rstrip(b"\n") == text.rstrip(b"\n")
