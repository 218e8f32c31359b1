"""A module as a user writes it: the functions that the tests of SQL call."""

from __future__ import annotations

MODULE = """
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from sqlengine import udaf, udf, udtf


@dataclass
class Point:
    x: int
    label: str | None


class Word(NamedTuple):
    text: str
    length: int | None


@udf
def strict(n: int) -> int:
    assert n is not None
    return n + 1

@udf
def lenient(n: int | None) -> str:
    return f"got {n}"

@udf
def nothing(n: int) -> int:
    return None

@udf
def add(first: int, *rest: int) -> int:
    return first + sum(rest)

@udf
def greet(name: str, greeting: str = "hello") -> str:
    return f"{greeting} {name}"

@udf
def no_arguments() -> int:
    return 42

@udf(deterministic=False)
def dice(sides: int) -> int:
    return sides

@udf(vectorized=True)
def doubled(n: int) -> int:
    if pc.any(pc.equal(n, 13)).as_py():
        raise ValueError("thirteen")
    if pc.any(pc.equal(n, 14)).as_py():
        os._exit(1)
    return pc.multiply(n, 2)

@udf(input_types=["INT", "VARCHAR(10)"], result_type="DECIMAL(10, 2)")
def explicit(a, b):
    return None if a is None else Decimal(a) / 3 if b is None else Decimal(b)

@udf
def annotated(x: Annotated[Decimal, "DECIMAL(5, 1)"]) -> Annotated[Decimal, "DECIMAL(8, 3)"]:
    return x / 7

@udf
def moved(p: Point) -> Point:
    assert isinstance(p, Point)
    return Point(p.x + 1, None if p.label is None else p.label.upper())

@udf
def pairs(values: list[int]) -> dict[str, list[int]]:
    return {str(v): [v, v] for v in values}

@udf
def times(d: date, t: time, ts: datetime, i: timedelta) -> tuple[date, time, datetime, timedelta]:
    return d + timedelta(days=1), t.replace(hour=23), ts + timedelta(microseconds=1), i * 2

@udf
def true_for_big(n: int) -> bool:
    return n > 2

@udtf
def chunks(text: str) -> Iterator[Word]:
    for part in text.split():
        yield Word(part, len(part))

@udtf
def spread(n: int) -> Iterator[int]:
    if n == 3:
        raise ValueError("three")
    if n == 4:
        os._exit(4)
    yield from range(n)

@udaf
class Weighted:
    def create_accumulator(self) -> list[float]:
        return [0.0, 0.0]

    def accumulate(self, acc: list[float], value: float, weight: int) -> None:
        acc[0] += value * weight
        if weight < 0:
            raise ValueError("a weight is not negative")
        if weight == 99:
            os._exit(9)
        acc[1] += weight

    def retract(self, acc: list[float], value: float, weight: int) -> None:
        acc[0] -= value * weight
        acc[1] -= weight

    def get_value(self, acc: list[float]) -> float | None:
        return acc[0] / acc[1] if acc[1] else None

@udaf
class Longest:
    def create_accumulator(self) -> str:
        return ""

    def accumulate(self, acc: str, text: str) -> str:
        return text if len(text) > len(acc) else acc

    def get_value(self, acc: str) -> str:
        return acc
"""
NAMES = (
    "strict lenient nothing add greet no_arguments dice doubled explicit annotated moved pairs"
    " times true_for_big chunks spread Weighted Longest"
).split()
