"""Statements, jobs and topics from Python: `connect` to a server, or to an engine in this process.

with connect("http://127.0.0.1:8083") as connection:
    connection.submit("errors", "INSERT INTO alerts SELECT * FROM events WHERE level > 3")
    for row in connection.sql("SELECT * FROM alerts"):
        print(row)
"""

from __future__ import annotations

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Self
from weakref import WeakSet

from parser.errors import ServiceError
from sqlengine.connection.arguments import text
from sqlengine.connection.jobs import JobAccess, JobResult, Jobs, Rule
from sqlengine.connection.topics import TopicRecord, Topics

if TYPE_CHECKING:
    import pyarrow as pa

    from sqlengine.broker.base import Broker
    from sqlengine.connection.feeds import Feed
    from sqlengine.connection.pages import Pages
    from sqlengine.connection.progress import Told
    from sqlengine.connection.results import Result
    from sqlengine.connection.streams import Stream
    from sqlengine.connection.tables import Held, Home


class Connection(ABC):
    """Statements, jobs and topics of one engine. All methods may be called from any thread.

    A context manager: leaving it closes the connection. Methods raise a SqlError that says what was
    refused: ParseError, PlanError or JobError in this process, Refused with the same text from a
    server, Unreachable where none answers; a BrokerError where a topic is at fault.
    """

    def __init__(self) -> None:
        self._results: WeakSet[Result] = WeakSet()
        self._feeds: dict[str, Feed] = {}
        self._closed = False

    def sql(
        self,
        statement: str,
        *,
        follow: bool = False,
        timeout_s: float | None = None,
        progress: Told = False,
        job: str | None = None,
    ) -> Result:
        """Runs any statement, and returns its rows while they come.

        A query reads topics from their beginning to their present end; with `follow` it goes on
        with rows that come later. An INSERT or statement set whose input ends has run when this
        returns (`result.rows_written`); any other becomes a job (`result.job`), and so does each
        with `job`, its name, in the place of the job that had it. CREATE, ALTER and DROP count for
        all: a table is the job `table.NAME`. SET, USE and what is TEMPORARY count for the
        statements of this connection behind them. `timeout_s` ends it. `progress`: True shows a
        line on standard error, a function is called with a Progress about twice a second. Loads
        pyarrow.
        """
        from sqlengine.connection.progress import teller
        from sqlengine.connection.results import Result

        text(statement, "a statement")
        told = teller(progress)
        pages = self._ask(statement, follow=follow, timeout_s=timeout_s, job=job)
        result = Result(pages, told, self.jobs)
        self._results.add(result)
        return result

    def insert_rows(self, statement: str, rows: pa.RecordBatch) -> Result:
        """Runs an INSERT that reads rows of this program, by the name that
        `sqlengine.connection.parameters` gives them, to its end."""
        from sqlengine.connection.results import Result

        result = Result(self._ask_with_rows(statement, rows), jobs=self.jobs)
        self._results.add(result)
        return result

    def source(self, table: str) -> Stream:
        """The rows of a table or view, from which `map`, `filter`, `key_by` and the like make
        others."""
        from sqlengine.connection.streams import Stream, path_of

        name = path_of(text(table, "the name of a table"))
        return Stream(self, f"SELECT * FROM {name}", name)

    @abstractmethod
    def _ask(
        self, statement: str, *, follow: bool, timeout_s: float | None, job: str | None
    ) -> Pages:
        """Starts a statement in the session of this connection."""

    @abstractmethod
    def _ask_with_rows(self, statement: str, rows: pa.RecordBatch) -> Pages:
        """Starts a statement over rows that it brings along."""

    @property
    @abstractmethod
    def broker(self) -> Broker:
        """The topics with all that a broker does: options, groups of consumers, idempotent appends.

        Loads pyarrow, which its records are in.
        """

    @property
    @abstractmethod
    def _job_access(self) -> JobAccess: ...

    @property
    def jobs(self) -> Jobs:
        """All jobs, and each by name."""
        return Jobs(self._job_access)

    @property
    def rules(self) -> dict[str, Rule]:
        """The jobs whose texts have the head of a rule, by name, as they are now."""
        return {rule.name: rule for rule in self._job_access.rules()}

    @property
    def topics(self) -> Topics:
        """All topics, and each by name."""
        return Topics(lambda: self.broker)

    def submit(self, name: str, sql: str) -> JobResult:
        """See `Jobs.submit`."""
        return self.jobs.submit(name, sql)

    def validate(self, name: str, sql: str) -> JobResult:
        """See `Jobs.validate`."""
        return self.jobs.validate(name, sql)

    def remove(self, name: str) -> JobResult:
        """See `Jobs.remove`."""
        return self.jobs.remove(name)

    @property
    def closed(self) -> bool:
        """True once it is closed."""
        return self._closed

    def close(self) -> None:
        """Closes the connection, ends the statements whose results are not read to their ends, and
        the feeds of tables. May be called twice."""
        while self._feeds:
            self._feeds.popitem()[1].close()
        for result in list(self._results):
            result.close()
        self._closed = True
        self._close()

    @abstractmethod
    def _close(self) -> None: ...

    def _require_open(self) -> None:
        """Raises ServiceError once the connection is closed."""
        if self._closed:
            raise ServiceError("the connection is closed", hint="connect again")

    def register_table(
        self,
        name: str,
        rows: object,
        *,
        schema: Mapping[str, str] | None = None,
        event_time: str | None = None,
        watermark: dt.timedelta = dt.timedelta(0),
        append: bool = False,
    ) -> Feed:
        """Makes a table for queries and jobs of a Python object, and returns the feed of its rows.

        `rows`: what gives Arrow's PyCapsules (tables of pyarrow, pandas, Polars, DuckDB), a list,
        an iterator, a generator or an asynchronous one, of mappings, dataclasses or NamedTuples;
        the last three may have no end. A function takes rows: see `register_sink`. `schema`: SQL
        types by column; by default those of the Arrow columns, of the hints of the dataclass, or of
        the values of the first row, which is waited for then. `event_time`: the column with the
        times of events, and `watermark` by how much these may come late; a column of more than
        milliseconds gets a computed one beside it, `rowtime`.

        An engine in this process reads what has an end from memory; registering a name again
        replaces the rows for queries. All else is written to the topic `name` as JSON, which must
        not exist unless `append`. ServiceError for an object, a column or a type that no table can
        have, SqlError where the definition is refused."""
        from sqlengine.connection.definers import registered
        from sqlengine.connection.tables import register

        text(name, "the name of a table")
        feed = register(self._home, name, rows, schema, event_time, watermark, append=append)
        # By the job, which keeps its name where the table is renamed.
        self._feeds[registered(self._home.jobs, name)] = feed
        return feed

    def register_sink(
        self,
        name: str,
        function: Callable[[pa.RecordBatch], object],
        schema: Mapping[str, str],
    ) -> None:
        """Makes a table whose rows a function of this process takes: a record batch for each epoch,
        whose first column `op` says +I, -U, +U or -D. `schema`: SQL types by column. Rows since the
        last checkpoint come again after a crash. ServiceError for a server, which cannot call it.
        """
        from sqlengine.connection.tables import register_sink

        register_sink(self._home, text(name, "the name of a table"), function, schema)

    def unregister_table(self, name: str) -> None:
        """Ends the feed of a registered table and removes the table; its topic stays, if it has
        one. JobError where a job uses it, or there is none."""
        from sqlengine.connection.definers import registered
        from sqlengine.connection.tables import unregister

        job = registered(self._home.jobs, name)
        if (feed := self._feeds.pop(job, None)) is not None:
            feed.close()
        unregister(self._home, job)

    def register_function(
        self, function: Callable[..., object], name: str | None = None
    ) -> JobResult:
        """Makes a Python function, or the class of an aggregate, a function of SQL under its own
        name or another.

        Its source goes to the engine as a module, with all that it uses of its own module: imports,
        functions, classes and constants. Type hints, and the decorators `udf`, `udtf` and `udaf`,
        say what it takes. A server must have been started with `--uploads`. ServiceError for what
        has no source, or uses what cannot be sent."""
        from sqlengine.connection.functions import register_function

        return register_function(self.submit_with_modules, function, name)

    @abstractmethod
    def submit_with_modules(self, name: str, sql: str, modules: Mapping[str, str]) -> JobResult:
        """Adds or replaces a job with modules of Python functions: sources by file name."""

    @property
    @abstractmethod
    def _held(self) -> Held | None:
        """The things that this process holds for the engine; None where that runs elsewhere."""

    @property
    def _home(self) -> Home:
        from sqlengine.connection.tables import Home

        return Home(self.jobs, lambda: self.broker, self._held)

    def create_topic(self, name: str, shards: int = 1, *, if_not_exists: bool = False) -> None:
        """See `Topics.create`."""
        self.topics.create(name, shards, if_not_exists=if_not_exists)

    def write(
        self,
        topic: str,
        records: Iterable[bytes | str | Mapping[str, object]],
        *,
        shard: int = 0,
        key: bytes | None = None,
    ) -> int:
        """See `Topic.write`."""
        return self.topics[topic].write(records, shard=shard, key=key)

    def read(
        self, topic: str, *, shard: int = 0, offset: int | str = "earliest", limit: int = 1000
    ) -> list[TopicRecord]:
        """See `Topic.read`."""
        return self.topics[topic].read(shard=shard, offset=offset, limit=limit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
