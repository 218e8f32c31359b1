"""Functions that wait for others: many rows at once, in their order."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from parser.errors import SqlError
from sqlengine.functions.limits import FunctionLimits
from sqlengine.session.session import Session
from tests.functions.sessions import opened, run

MODULE = """
import asyncio, os, time
from sqlengine import async_udf, async_udtf, udf

running = most = 0
tries = {}


@async_udf(concurrency=20, timeout_s=30)
async def looked_up(n: int) -> str | None:
    global running, most
    running += 1
    most = max(most, running)
    await asyncio.sleep(0.05 if n % 2 else 0.01)
    running -= 1
    return None if n == 7 else f"v{n} {most <= 20}"


@async_udf(retries=2, retry_delay_s=0.01)
async def at_last(n: int) -> int:
    tries[n] = tries.get(n, 0) + 1
    if tries[n] <= n:
        raise ValueError(f"not yet {tries[n]}")
    return tries[n]


@async_udf(timeout_s=0.05, retries=1, retry_delay_s=0.01)
async def bad(n: int) -> int:
    if n == 1:
        await asyncio.sleep(60)
    if n == 2:
        time.sleep(60)
    if n == 3:
        os._exit(3)
    if n == 4:
        return "four"
    return n


@async_udtf()
async def children(n: int) -> list[tuple[int, str]]:
    await asyncio.sleep(0.01)
    return [(i, f"{n}.{i}") for i in range(n)]


@udf
async def plain(n: int) -> int:
    return n


@async_udf()
def no_async(n: int) -> int:
    return n
"""
NAMES = ("looked_up", "at_last", "bad", "children")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    limits = FunctionLimits(row_s=0.3, call_s=1.0, failures=100)
    with opened(tmp_path_factory.mktemp("script"), MODULE, NAMES, limits) as session:
        yield session


def numbers(*values: int) -> str:
    return f"(VALUES {', '.join(f'({v})' for v in values)}) AS t (n)"


def test_rows_wait_together_and_keep_their_order(session: Session) -> None:
    began = time.monotonic()
    rows = run(session, f"SELECT n, looked_up(n) FROM {numbers(*range(200))}")
    assert rows == [(n, None if n == 7 else f"v{n} True") for n in range(200)]
    assert time.monotonic() - began < 5  # one after the other they take six


def test_a_call_that_fails_is_made_again(session: Session) -> None:
    assert run(session, f"SELECT n, at_last(n) FROM {numbers(0, 1, 2, 3)}") == [
        (0, 1),
        (1, 2),
        (2, 3),
    ]


def test_a_fault_costs_its_row_alone(session: Session) -> None:
    assert run(session, f"SELECT bad(n) FROM {numbers(*range(6))}") == [(0,), (5,)]


def test_a_look_up_in_lateral(session: Session) -> None:
    rows = run(
        session,
        f"SELECT n, c, w FROM {numbers(2, 0, 1)} LEFT JOIN LATERAL TABLE(children(n)) AS x (c, w) ON TRUE",
    )
    assert rows == [(2, 0, "2.0"), (2, 1, "2.1"), (0, None, None), (1, 0, "1.0")]


@pytest.mark.parametrize(
    ("name", "says"), [("plain", "it is an async def"), ("no_async", "it is no async def")]
)
def test_declarations_that_are_wrong(session: Session, name: str, says: str) -> None:
    with pytest.raises(SqlError) as refused:
        run(session, f"CREATE TEMPORARY FUNCTION wrong AS 'mine.{name}' LANGUAGE PYTHON")
    assert says in str(refused.value.detail)
