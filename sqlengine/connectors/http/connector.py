"""The connector 'http': rows that a host gives when it is asked, once or again and again.

CREATE TABLE rates (code STRING, rate DOUBLE) WITH ('connector' = 'http',
  'url' = 'https://rates.example/v1/latest', 'response.rows' = '/rates', 'format' = 'json')"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

import msgspec
from xxhash import xxh3_64_hexdigest

from parser.errors import OptionError, UnsupportedColumn
from parser.types import BIGINT, DataType, timestamp_ltz
from planner.capabilities import (
    OF_FORMAT,
    Boundedness,
    Capabilities,
    FormatUse,
    Lookup,
    SourceCapabilities,
)
from planner.catalog import Table
from sqlengine.connectors.base import Connector, Source
from sqlengine.connectors.chunks import Chunk
from sqlengine.connectors.environment import Environment, options_as_written
from sqlengine.connectors.http.authorization import ACCOUNT_OPTIONS, HEADER, authorization
from sqlengine.connectors.http.client import HttpClient, http_url, site
from sqlengine.connectors.http.headers import check_header, on_the_wire
from sqlengine.connectors.http.looking_up import HttpLookup
from sqlengine.connectors.http.polling import PollReceiver, Polls
from sqlengine.connectors.http.reading import Asked, Reader, pointer
from sqlengine.connectors.http.source import HttpSource
from sqlengine.connectors.lookup_options import (
    ASKED_OPTIONS,
    AT_ONCE,
    DEAD_LETTER,
    ON_ERROR,
    concurrency,
)
from sqlengine.connectors.receivers.service import Wanted
from sqlengine.connectors.receivers.source import RECEIVE_OPTIONS, ReceivedSource, stream_of
from sqlengine.connectors.record_places import record_options
from sqlengine.connectors.registry import options_of
from sqlengine.connectors.row_lookup import RowLookup
from sqlengine.connectors.tls.files import TLS_OPTIONS, PemFiles, pem_files
from sqlengine.connectors.topic.rows import TopicRows
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, boolean, choice, duration
from sqlengine.system.sizes import size

_POLL: Final = "scan.poll-interval"
_CURSOR: Final = "scan.cursor.pointer"
_PARAMETER: Final = "scan.cursor.parameter"


class HttpConnector(Connector):
    """Reads as a whole, unless the table has an interval at which its host is asked."""

    name: ClassVar[str] = "http"
    on_spark: ClassVar[str] = "the driver reads; tasks what it polls"
    options: ClassVar[Mapping[str, Option]] = {
        "url": Option(http_url, required=True, place=True, doc="http:// or https://"),
        "url.suffix": Option(
            secret=True, doc="follows 'url', where a part of the address is a secret"
        ),
        "method": Option(choice("GET", "POST"), default="GET"),
        "body": Option(doc="of a POST"),
        "content-type": Option(default="application/json", doc="of the body"),
        HEADER + "*": Option(doc="a header of each request"),
        **ACCOUNT_OPTIONS,
        "response.rows": Option(
            pointer, default="", doc="a JSON pointer to the rows, such as /data/items"
        ),
        "response.rows.optional": Option(
            boolean, default="false", doc="an answer that has nothing there has no rows: no error"
        ),
        "response.max-bytes": Option(size, default="256 mb", doc="of all pages of one reading"),
        "pagination": Option(
            choice("none", "link", "cursor"),
            default="none",
            doc="'link' follows the header Link, 'cursor' a mark in the answer",
        ),
        "pagination.cursor": Option(pointer, doc="a JSON pointer to the mark of the next page"),
        "pagination.parameter": Option(doc="the parameter that takes the mark"),
        "pagination.max-pages": Option(at_least(1), default="1000"),
        "request.timeout": Option(
            duration, default="10 s", doc="for connecting, and for the whole answer"
        ),
        **TLS_OPTIONS,
        **ASKED_OPTIONS,
        **concurrency(16, "so many keys are asked for at a time ('lookup.cache')"),
        ON_ERROR: Option(
            choice("fail", DEAD_LETTER),
            default="fail",
            doc="what becomes of the rows for whose key the host answers with an error of that "
            "request, or with what is none of the table's rows: the job waits until it answers, "
            "or they are dead letters and the job goes on",
        ),
        _POLL: Option(duration, doc="the table has no end: its host is asked at this interval"),
        _CURSOR: Option(
            pointer, doc="a JSON pointer to the value of a row after which the next rows come"
        ),
        _PARAMETER: Option(doc="the parameter that takes that value"),
        "scan.cursor.initial": Option(doc="the value of that parameter before there is a row"),
        **RECEIVE_OPTIONS,
    }
    metadata: ClassVar[Mapping[str, DataType]] = {"timestamp": timestamp_ltz(3), "offset": BIGINT}
    capabilities: ClassVar[Capabilities] = Capabilities(
        source=SourceCapabilities(
            changelog=OF_FORMAT,
            boundedness=Boundedness.BY_OPTIONS,
            replayable=False,
            lookup=Lookup.ASKED,
        ),
        format=FormatUse.RECORDS,
    )

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`. OptionError for options that belong to others that are missing."""
        options = options_of(table)
        _check(table, options)
        _headers(table, options)
        authorization(table, options)
        source = self.capabilities.source
        assert source is not None
        if options[_POLL] is None:
            for column in table.metadata:
                if column.key in self.metadata:
                    raise UnsupportedColumn(
                        f"table '{table.display}' has no metadata",
                        hint=f"only a table with '{_POLL}' has it",
                        subject=column.column.name,
                    )
            read = replace(source, boundedness=Boundedness.BOUNDED)
            return Capabilities(source=read, format=FormatUse.RECORDS)
        polled = SourceCapabilities(changelog=OF_FORMAT, seekable=True, expires=True)
        return Capabilities(source=polled, format=FormatUse.RECORDS, received=True)

    def source(self, table: Table, environment: Environment) -> Source:
        """See `Connector`. Reads all rows now, unless they are polled. NoAnswer where the host is
        away, BadAnswer for what is none of the table's rows."""
        options = options_of(table)
        if options[_POLL] is None:
            return HttpSource(table, _reader(table, options, environment))
        polls = _polls(options)
        _files(table, options, environment)  # the host is asked later: what is wrong is told now
        wanted = Wanted(
            table.display,
            stream_of(_place(table, environment), {}, options, 0),
            _settings(table, options),
            lambda: PollReceiver(lambda: _reader(table, options, environment), polls),
        )
        return ReceivedSource(environment, table, options, wanted, TopicRows(table))

    def row_lookup(
        self, table: Table, columns: Sequence[str], environment: Environment
    ) -> RowLookup:
        """See `Connector`. PlanError for templates of other columns."""
        options = options_of(table)
        at_once = options[AT_ONCE]
        assert isinstance(at_once, int)
        client = _client(table, options, environment, at_once)
        lenient = options[ON_ERROR] == DEAD_LETTER
        asked = _asked(table, options)
        return HttpLookup(table, columns, asked, client, at_once, lenient=lenient)

    def linked(self, table: Table, at: bytes) -> Chunk:
        """See `Connector`."""
        return TopicRows(table).linked(at)

    def content_stamp(self, table: Table, environment: Environment) -> str | None:
        """See `Connector`: the ETag, or the time of the last change."""
        return _reader(table, options_of(table), environment).stamp()


def _client(
    table: Table, options: Mapping[str, object], environment: Environment, connections: int = 1
) -> HttpClient:
    timeout_ms = options["request.timeout"]
    assert isinstance(timeout_ms, int)
    timeout_s = min(timeout_ms / 1000, environment.openings.timeout_s / 2)
    context = _files(table, options, environment).client_context()
    return HttpClient(context, environment.network, timeout_s, connections)


def _files(table: Table, options: Mapping[str, object], environment: Environment) -> PemFiles:
    plain = "http://" if table.options["url"].startswith("http://") else None
    return pem_files(table, options, environment.files, plain)


def _place(table: Table, environment: Environment) -> str:
    """Returns what tells apart the tables for which a host is asked differently. A secret counts by
    its name: a renewed one is for the same log."""
    written = dict(options_as_written(table, environment))
    told = sorted(record_options(replace(table, options=written)).items())
    return f"{site(table.options['url'])} {xxh3_64_hexdigest(msgspec.json.encode(told))}"


def _settings(table: Table, options: Mapping[str, object]) -> dict[str, str]:
    """Returns what tables agree on that share a log: what an answer is, and how its host is
    reached."""
    records = "json" if _is_json(table) else "lines"
    return {"format": records, **{name: str(options[name] or "") for name in TLS_OPTIONS}}


def _is_json(table: Table) -> bool:
    return table.options["format"].endswith("json")


def _check(table: Table, options: Mapping[str, object]) -> None:
    needed = {
        "pagination.cursor": options["pagination"] == "cursor",
        "pagination.parameter": options["pagination"] == "cursor",
        _PARAMETER: options[_CURSOR] is not None,
        _POLL: options[_CURSOR] is not None,
        _CURSOR: options["scan.cursor.initial"] is not None,
    }
    for name, is_needed in needed.items():
        if is_needed and options[name] is None:
            raise OptionError(f"table '{table.display}' needs the option '{name}'", subject=name)
    if options["body"] is not None and options["method"] == "GET":
        raise OptionError(f"a GET of table '{table.display}' has no 'body'", subject="body")


def _polls(options: Mapping[str, object]) -> Polls:
    interval, initial = options[_POLL], options["scan.cursor.initial"]
    assert isinstance(interval, int)
    return Polls(
        interval / 1000,
        None if options[_CURSOR] is None else str(options[_CURSOR]),
        str(options[_PARAMETER] or ""),
        None if initial is None else str(initial),
    )


def _reader(table: Table, options: Mapping[str, object], environment: Environment) -> Reader:
    return Reader(_asked(table, options), _client(table, options, environment))


def _headers(table: Table, options: Mapping[str, object]) -> dict[str, str]:
    given = {n.removeprefix(HEADER): str(t) for n, t in options.items() if n.startswith(HEADER)}
    for name, text in given.items():
        check_header(table, name, text)
    return {name: on_the_wire(text) for name, text in given.items()}


def _asked(table: Table, options: Mapping[str, object]) -> Asked:
    headers = _headers(table, options)
    body = options["body"]
    if body is not None:
        headers["Content-Type"] = str(options["content-type"])
    most_bytes, most_pages = options["response.max-bytes"], options["pagination.max-pages"]
    assert isinstance(most_bytes, int)
    assert isinstance(most_pages, int)
    return Asked(
        str(options["method"]),
        str(options["url"]) + str(options["url.suffix"] or ""),
        headers | authorization(table, options),
        None if body is None else str(body).encode(),
        _is_json(table),
        str(options["response.rows"]),
        str(options["pagination"]),
        str(options["pagination.cursor"] or ""),
        str(options["pagination.parameter"] or ""),
        most_bytes,
        most_pages,
        rows_optional=options["response.rows.optional"] is True,
    )
