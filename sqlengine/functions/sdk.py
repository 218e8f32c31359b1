"""The decorators of users' modules: `from sqlengine import udf, udtf, udaf`.

They only note what is declared, so that a decorated function stays the function that it was, to be
called and tested as any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypedDict, TypeVar, Unpack, overload

F = TypeVar("F", bound=Callable[..., object])

MARK = "__sqlengine__"
Kind: TypeAlias = Literal["scalar", "table", "aggregate", "process", "sink"]


@dataclass(frozen=True)
class Declaration:
    """The arguments of a decorator; types are SQL's words, None where the type hints give them."""

    kind: Kind
    deterministic: bool = True
    vectorized: bool = False
    result_type: str | None = None
    input_types: tuple[str, ...] | None = None


@overload
def udf(function: F, /) -> F: ...


@overload
def udf(
    *,
    deterministic: bool = True,
    vectorized: bool = False,
    result_type: str | None = None,
    input_types: Sequence[str] | None = None,
) -> Callable[[F], F]: ...


def udf(
    function: F | None = None,
    /,
    *,
    deterministic: bool = True,
    vectorized: bool = False,
    result_type: str | None = None,
    input_types: Sequence[str] | None = None,
) -> F | Callable[[F], F]:
    """A scalar function: a value for each row. Its type hints are its signature, or SQL types:
    `result_type`, `input_types`. `vectorized`: it takes pyarrow arrays and gives one of the same
    length. A function whose value may differ for equal arguments must say `deterministic=False`: it
    is never merged or computed once for several rows."""
    return _declare("scalar", function, deterministic, vectorized, result_type, input_types)


@overload
def udtf(function: F, /) -> F: ...


@overload
def udtf(
    *,
    deterministic: bool = True,
    result_type: str | None = None,
    input_types: Sequence[str] | None = None,
) -> Callable[[F], F]: ...


def udtf(
    function: F | None = None,
    /,
    *,
    deterministic: bool = True,
    result_type: str | None = None,
    input_types: Sequence[str] | None = None,
) -> F | Callable[[F], F]:
    """A table function: any number of rows for each row, as an iterable of values, tuples,
    dataclasses or NamedTuples: `-> Iterator[tuple[str, int]]`. `result_type` names columns:
    'ROW<word STRING, length BIGINT>'."""
    return _declare("table", function, deterministic, False, result_type, input_types)


@overload
def udaf(cls: F, /) -> F: ...


@overload
def udaf(
    *,
    deterministic: bool = True,
    result_type: str | None = None,
    input_types: Sequence[str] | None = None,
) -> Callable[[F], F]: ...


def udaf(
    cls: F | None = None,
    /,
    *,
    deterministic: bool = True,
    result_type: str | None = None,
    input_types: Sequence[str] | None = None,
) -> F | Callable[[F], F]:
    """An aggregate: a class with `create_accumulator(self)`, `accumulate(self, acc, …)` and
    `get_value(self, acc)`, and where rows are taken back or parts put together `retract(self, acc,
    …)` and `merge(self, acc, other)`. The accumulator is plain data (numbers, text, lists, dicts,
    dataclasses): it is kept with the state of the job. Methods change it, or give another one."""
    return _declare("aggregate", cls, deterministic, False, result_type, input_types)


@overload
def sink(function: F, /) -> F: ...


@overload
def sink(
    *, vectorized: bool = False, input_types: Sequence[str] | None = None
) -> Callable[[F], F]: ...


def sink(
    function: F | None = None,
    /,
    *,
    vectorized: bool = False,
    input_types: Sequence[str] | None = None,
) -> F | Callable[[F], F]:
    """Declares a function that takes the rows of a table ('connector' = 'python').

    It is called for each row with its columns; with `vectorized` once for all rows of an epoch,
    with pyarrow arrays. NULL is None. A first parameter `op: str` gets '+I', '-U', '+U' or '-D';
    without it the table takes new rows only. After a crash rows may come again. An exception fails
    the job that writes; the result is ignored.
    """
    return _declare("sink", function, False, vectorized, "BOOLEAN", input_types)


@dataclass(frozen=True, kw_only=True)
class AsyncDeclaration(Declaration):
    """The arguments of `async_udf`; times in seconds."""

    concurrency: int
    timeout_s: float
    retries: int
    retry_delay_s: float


class AsyncArguments(TypedDict, total=False):
    """The arguments of `async_udf` and `async_udtf`; times in seconds."""

    concurrency: int  # 100
    timeout_s: float  # 5
    retries: int  # 0
    retry_delay_s: float  # 0.1
    deterministic: bool  # False
    result_type: str | None
    input_types: Sequence[str] | None


def async_udf(**arguments: Unpack[AsyncArguments]) -> Callable[[F], F]:
    """A scalar function that waits for others: an `async def`, which is called for up to
    `concurrency` rows at once; their order stays.

    A call that takes longer than `timeout_s` or raises is made again up to `retries` times, after
    a delay that doubles each time. What it gives is written down with the epoch, unless it is
    `deterministic`."""
    return _asynchronous("scalar", **arguments)


def async_udtf(**arguments: Unpack[AsyncArguments]) -> Callable[[F], F]:
    """A table function that waits for others: an `async def` that gives a list of rows, as a
    look-up does. See `async_udf`."""
    return _asynchronous("table", **arguments)


def _asynchronous(
    kind: Kind,
    *,
    concurrency: int = 100,
    timeout_s: float = 5.0,
    retries: int = 0,
    retry_delay_s: float = 0.1,
    deterministic: bool = False,
    result_type: str | None = None,
    input_types: Sequence[str] | None = None,
) -> Callable[[F], F]:
    inputs = None if input_types is None else tuple(input_types)
    declaration = AsyncDeclaration(
        kind,
        deterministic,
        result_type=result_type,
        input_types=inputs,
        concurrency=concurrency,
        timeout_s=timeout_s,
        retries=retries,
        retry_delay_s=retry_delay_s,
    )

    def declare(declared: F) -> F:
        setattr(declared, MARK, declaration)
        return declared

    return declare


def _declare(
    kind: Kind,
    function: F | None,
    deterministic: bool,
    vectorized: bool,
    result_type: str | None,
    input_types: Sequence[str] | None,
) -> F | Callable[[F], F]:
    inputs = None if input_types is None else tuple(input_types)
    declaration = Declaration(kind, deterministic, vectorized, result_type, inputs)

    def declare(declared: F) -> F:
        setattr(declared, MARK, declaration)
        return declared

    return declare if function is None else declare(function)
