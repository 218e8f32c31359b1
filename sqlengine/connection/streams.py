"""Streams: queries that are put together in Python. Each is a text of SQL, and has its plan."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import LambdaType
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from xxhash import xxh3_64_hexdigest

from parser.errors import ServiceError
from parser.writer.names import backticked
from parser.writer.names import options as written_options
from parser.writer.values import literal
from sqlengine.connection.arguments import text
from sqlengine.connection.definers import check_fresh, job_for, job_into
from sqlengine.connection.functions import lambda_source, register_function
from sqlengine.connection.windows import Window

if TYPE_CHECKING:
    from sqlengine.connection.jobs import Job, JobResult, Jobs, Plan
    from sqlengine.connection.results import Result

# A value: an expression of SQL, a function with type hints, a lambda with the type of its value.
Value: TypeAlias = "str | Callable[..., object] | tuple[Callable[..., object], str]"


def path_of(table: str) -> str:
    """Returns the name of a table, such as 'a' or 'database.a', as SQL writes it."""
    return ".".join(map(backticked, table.split(".")))


class Statements(Protocol):
    """The part of a connection that streams need."""

    @property
    def jobs(self) -> Jobs: ...

    def sql(self, statement: str, *, follow: bool = False, job: str | None = None) -> Result: ...

    def submit(self, name: str, sql: str) -> JobResult: ...

    def submit_with_modules(self, name: str, sql: str, modules: Mapping[str, str]) -> JobResult: ...


class Stream:
    """Rows of a query: `map`, `filter`, `join` and the like make others of them, `sink` a job.

    `sql` is the query; nothing runs before `sink` or `run`."""

    def __init__(self, connection: Statements, sql: str, table: str | None = None) -> None:
        self._connection = connection
        self._table = table
        self.sql = sql

    def __repr__(self) -> str:
        return f"Stream({self.sql!r})"

    @property
    def types(self) -> dict[str, str]:
        """The SQL types of the columns by name."""
        with self._connection.sql(self.sql) as result:
            return result.types

    def filter(self, condition: str | Callable[..., object]) -> Stream:
        """The rows for which a condition is TRUE: an expression, or a function of the columns that
        its parameters name."""
        text = condition if isinstance(condition, str) else self._call(condition, "BOOLEAN")
        return self._made(f"SELECT * FROM {self._from()} WHERE {text}")

    def map(self, *columns: str, **named: Value) -> Stream:
        """Rows with these columns: those that are kept, and new ones by name. A value is an
        expression of SQL, a function with type hints, or a lambda with its type: (f, 'BIGINT')."""
        items = [backticked(c) for c in columns]
        items += [f"{self._value(v)} AS {backticked(n)}" for n, v in named.items()]
        return self._made(f"SELECT {', '.join(items)} FROM {self._from()}")

    def flat_map(self, function: Callable[..., object], *keep: str) -> Stream:
        """The rows that a table function (`@udtf`) gives for each row, behind columns to keep."""
        call = self._call(function, "")
        kept = "".join(f"s.{backticked(c)}, " for c in keep)
        source = f"{self._from()}, LATERAL TABLE({call}) AS made"
        return self._made(f"SELECT {kept}made.* FROM {source}")

    def key_by(self, *columns: str) -> KeyedStream:
        """The rows by key, to be aggregated or processed."""
        return KeyedStream(self, tuple(text(column, "a key") for column in columns))

    def window(self, window: Window) -> KeyedStream:
        """All rows in windows."""
        return self.key_by().window(window)

    def aggregate(self, **named: str) -> Stream:
        """One row of aggregates over all rows: n='COUNT(*)'."""
        return self.key_by().aggregate(**named)

    def join(self, other: Stream, on: str | Sequence[str], how: str = "inner") -> Stream:
        """Pairs with the rows of another stream. `on`: columns that both have, or a condition over
        `l` and `r`; `how`: inner, left, right or full."""
        kind = {"inner": "", "left": "LEFT ", "right": "RIGHT ", "full": "FULL "}.get(how)
        if kind is None:
            raise ServiceError(
                f"there is no join '{how}'", hint="there are inner, left, right and full"
            )
        if getattr(other, "_connection", None) is not self._connection:
            raise ServiceError(
                f"a stream is joined with one of its own connection, not with {other!r:.60}",
                hint="connection.source('table')",
            )
        names = [on] if isinstance(on, str) else list(on)
        columns = all(n.isidentifier() for n in names)
        how_ = f"USING ({', '.join(map(backticked, names))})" if columns else f"ON {names[0]}"
        left, right = self._from("l"), other._from("r")
        return self._made(f"SELECT * FROM {left} {kind}JOIN {right} {how_}")

    def union(self, *others: Stream) -> Stream:
        """The rows of all; their columns go together by place."""
        return self._made(" UNION ALL ".join(s.sql for s in (self, *others)))

    # ---- its end ---------------------------------------------------------------------------------

    def sink(
        self,
        table: str,
        *,
        job: str | None = None,
        create: bool = False,
        key: str | Sequence[str] = (),
    ) -> Job:
        """Writes the rows to a table, as a job that goes on. `create` makes the table first: a
        topic of its name, which holds the last row of each `key`, if one is given.

        The job is known by the table and the rows, unless it has a name: once more the same is the
        same job. ServiceError for a table that is to be made, and that such a job fills with other
        rows."""
        name = job or job_into(table, self.sql)
        if create and job is None:
            check_fresh(self._connection.jobs, table, name)
        if create:
            self._create(table, [key] if isinstance(key, str) else key)
        result = self._connection.sql(f"INSERT INTO {path_of(table)} {self.sql}", job=name)
        assert result.job is not None
        return result.job

    def run(self, *, follow: bool = False) -> Result:
        """Asks for the rows: see `Connection.sql`."""
        return self._connection.sql(self.sql, follow=follow)

    def explain(self) -> Plan:
        """Returns the plan after each step."""
        from sqlengine.connection.jobs import Plan

        rows = self._connection.sql(f"EXPLAIN {self.sql}")
        return Plan("\n".join(str(row[0]) for row in rows))

    def _repr_html_(self) -> str:
        return self.run()._repr_html_()

    # ---- private ---------------------------------------------------------------------------------

    def _made(self, sql: str) -> Stream:
        return Stream(self._connection, sql)

    def _from(self, alias: str = "s") -> str:
        return f"{self._relation()} AS {alias}"

    def _relation(self) -> str:
        return self._table or f"({self.sql})"

    def _value(self, value: Value) -> str:
        if isinstance(value, str):
            return value
        return self._call(*value) if isinstance(value, tuple) else self._call(value, "")

    def _call(self, function: Callable[..., object], result: str) -> str:
        """A call of a Python function with the columns that its parameters name."""
        if not callable(function):
            raise ServiceError(f"a value is a text of SQL or a function, not {function!r:.60}")
        columns = list(inspect.signature(function).parameters)
        if isinstance(function, LambdaType) and function.__name__ == "<lambda>":
            name = self._lambda(function, columns, result)
        else:
            name = function.__name__
            register_function(self._connection.submit_with_modules, function, None)
        return f"{backticked(name)}({', '.join(map(backticked, columns))})"

    def _lambda(self, function: LambdaType, columns: Sequence[str], result: str) -> str:
        if not result:
            raise ServiceError(
                "the type of a lambda's value is not known",
                hint="say it: (lambda price: price * 2, 'DOUBLE'), or use a def with type hints",
            )
        types = self.types
        unknown = next((c for c in columns if c not in types), None)
        if unknown is not None:
            raise ServiceError(
                f"a lambda takes '{unknown}', which is no column",
                hint=f"the columns are {', '.join(types)}",
            )
        inputs = [f"{types[c].removesuffix(' NOT NULL')} NOT NULL" for c in columns]
        body = lambda_source(function, "f", inputs, result)
        name = f"lambda_{xxh3_64_hexdigest(body.encode())}"
        module = f"from_python_{name}"
        source = lambda_source(function, name, inputs, result)
        sql = f"CREATE FUNCTION {backticked(name)} AS '{module}.{name}' LANGUAGE PYTHON"
        submit = self._connection.submit_with_modules
        submit(f"function.{name}", sql, {f"{module}.py": source})
        return name

    def _create(self, table: str, key: Sequence[str]) -> None:
        columns = [
            f"{backticked(n)} {t}{' NOT NULL' if n in key and 'NOT NULL' not in t else ''}"
            for n, t in self.types.items()
        ]
        options = {"connector": "topic", "topic": table, "format": "json"}
        if key:
            columns.append(f"PRIMARY KEY ({', '.join(map(backticked, key))}) NOT ENFORCED")
            options["upsert"] = "true"
        text = (
            f"CREATE TABLE {path_of(table)} ({', '.join(columns)}) WITH {written_options(options)}"
        )
        self._connection.submit(job_for(self._connection.jobs, table), text)


@dataclass(frozen=True)
class KeyedStream:
    """Rows by key, perhaps in windows."""

    stream: Stream
    keys: tuple[str, ...]
    in_window: Window | None = None

    def window(self, window: Window) -> KeyedStream:
        """The rows in windows."""
        if not isinstance(window, Window):
            raise ServiceError(
                f"a window is tumble(…), hop(…), cumulate(…) or sessions(…), not {window!r:.60}",
                hint="from sqlengine import tumble",
            )
        return KeyedStream(self.stream, self.keys, window)

    def aggregate(self, **named: str) -> Stream:
        """A row for each key and window: the keys, the bounds of the window, and aggregates by
        name: n='COUNT(*)', total='SUM(price)'."""
        for value in named.values():
            text(value, "an aggregate")
        bounds = ("window_start", "window_end") if self.in_window is not None else ()
        by = [*map(backticked, self.keys), *bounds]
        items = ", ".join([*by, *(f"{v} AS {backticked(n)}" for n, v in named.items())])
        group = f" GROUP BY {', '.join(by)}" if by else ""
        source = self.stream._from()
        if self.in_window is not None:
            source = self.in_window.over(self.stream._relation())
        return self.stream._made(f"SELECT {items} FROM {source}{group}")

    def process(
        self,
        function: Callable[..., object],
        *,
        on_time: str | None = None,
        uid: str | None = None,
        **scalars: str | float,
    ) -> Stream:
        """The rows that a process function (`@process_function`) gives for those of each key.
        `scalars`: its other arguments, texts as SQL's literals."""
        if not (isinstance(function, type) and "eval" in vars(function)):
            raise ServiceError(
                f"process takes the class of a @process_function, not {function!r:.60}",
                hint="a function of one row goes into map, filter or flat_map",
            )
        register_function(self.stream._connection.submit_with_modules, function, None)
        by = f" PARTITION BY {', '.join(map(backticked, self.keys))}" if self.keys else ""
        table = next(
            n for n in inspect.signature(vars(function)["eval"]).parameters if n not in _OWN
        )
        arguments = [f"{table} => TABLE {self.stream._relation()}{by}"]
        arguments += [f"{n} => {literal(v)}" for n, v in scalars.items()]
        if on_time is not None:
            arguments.append(f"on_time => DESCRIPTOR({backticked(on_time)})")
        if uid is not None:
            arguments.append(f"uid => {literal(uid)}")
        call = f"{backticked(function.__name__)}({', '.join(arguments)})"
        return self.stream._made(f"SELECT * FROM {call}")


_OWN: Final = ("self", "ctx")
