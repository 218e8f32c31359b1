"""The connector 'webhook': rows are sent to a host over HTTP.

CREATE TABLE alerts (host STRING, message STRING) WITH (
  'connector' = 'webhook', 'url' = 'https://alerts.example/in', 'format' = 'json',
  'signature.secret' = '${secret:ALERTS}')"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import ClassVar, Final

from planner.capabilities import (
    OF_FORMAT,
    Capabilities,
    DeliveryGuarantee,
    FormatUse,
    SinkCapabilities,
)
from planner.catalog import Table
from sqlengine.batch import Batch
from sqlengine.connectors.base import Connector, Sink
from sqlengine.connectors.encoded import definition_digest
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.http.authorization import ACCOUNT_OPTIONS, HEADER, authorization
from sqlengine.connectors.http.client import HttpClient, http_url
from sqlengine.connectors.registry import options_of
from sqlengine.connectors.tls.files import TLS_OPTIONS, pem_files
from sqlengine.connectors.webhook.answers import RETRIED, codes
from sqlengine.connectors.webhook.requests import Requests
from sqlengine.connectors.webhook.signing import ALGORITHMS, SCHEMES, signer_of
from sqlengine.connectors.webhook.sink import Sending, WebhookSink
from sqlengine.formats.base import Option
from sqlengine.formats.options import at_least, between, choice, duration
from sqlengine.system.sizes import size

# Tables whose requests are kept, to judge rows by.
_KEPT: Final = 64


class WebhookConnector(Connector):
    """Opens sinks that send requests."""

    name: ClassVar[str] = "webhook"
    options: ClassVar[Mapping[str, Option]] = {
        "url": Option(
            http_url,
            required=True,
            place=True,
            doc="http:// or https://; {{column}} in its path or query stands for a value",
        ),
        "url.suffix": Option(
            secret=True, doc="follows 'url', where a part of the address is a secret"
        ),
        "method": Option(choice("POST", "PUT", "PATCH"), default="POST"),
        "body": Option(doc="a template of the body with {{column}}, in the place of the format"),
        "content-type": Option(doc="by default that of the format"),
        HEADER + "*": Option(doc="a header of each request; {{column}} stands for a value"),
        **ACCOUNT_OPTIONS,
        "signature.secret": Option(secret=True, doc="signs each request by HMAC"),
        "signature.scheme": Option(
            choice(*SCHEMES),
            default="standard",
            doc="'standard' is Standard Webhooks, 'timestamped' Stripe's form, 'body' GitHub's",
        ),
        "signature.header": Option(doc="has the signature, where not the one of the scheme"),
        "signature.algorithm": Option(choice(*ALGORITHMS), default="sha256"),
        "idempotency.header": Option(
            default="Idempotency-Key",
            doc="has a key of the request, which stays the same when it is sent again",
        ),
        "sink.batch.max-rows": Option(
            at_least(1), default="1", doc="rows of a request; 1: each row is a request"
        ),
        "sink.batch.max-bytes": Option(size, default="1 mb", doc="bytes of a request's rows"),
        "sink.batch.form": Option(
            choice("array", "lines"), doc="of several rows: a JSON array (for JSON), or lines"
        ),
        "sink.requests.max-inflight": Option(
            between(1, 1000),
            default="1",
            doc="requests at a time; with more than 1 rows overtake others",
        ),
        "sink.retry-codes": Option(
            codes, default=RETRIED, doc="statuses after which a request is sent again"
        ),
        "request.timeout": Option(
            duration, default="10 s", doc="for connecting, and for the whole answer"
        ),
        **TLS_OPTIONS,
    }
    capabilities: ClassVar[Capabilities] = Capabilities(
        format=FormatUse.RECORDS,
        sink=SinkCapabilities(
            changelog=OF_FORMAT,
            guarantee=DeliveryGuarantee.AT_LEAST_ONCE,
            condition=(
                "a request is sent until it is answered, and again after a crash, under the same"
                " idempotency key"
            ),
        ),
    )

    def __init__(self) -> None:
        self._known: OrderedDict[str, Requests] = OrderedDict()

    def capabilities_of(self, table: Table) -> Capabilities:
        """See `Connector`. PlanError for templates that name no column, and options that
        contradict each other."""
        self._requests(table)
        return self.capabilities

    def sink(self, table: Table, environment: Environment) -> Sink:
        """Connects to nothing yet. PlanError where the library or a file is missing."""
        options = options_of(table)
        requests = Requests(table, options)
        timeout_ms, in_flight = options["request.timeout"], options["sink.requests.max-inflight"]
        retried = options["sink.retry-codes"]
        assert isinstance(timeout_ms, int)
        assert isinstance(in_flight, int)
        assert isinstance(retried, frozenset)
        # A call that takes longer than all may would fail for good.
        timeout_s = min(timeout_ms / 1000, environment.openings.timeout_s / 2)
        sending = Sending(
            str(options["method"]),
            {"Content-Type": requests.content_type, **authorization(table, options)},
            signer_of(options),
            retried,
            in_flight,
            str(options["idempotency.header"]),
        )
        plain = "http://" if table.options["url"].startswith("http://") else None
        context = pem_files(table, options, environment.files, plain).client_context()
        client = HttpClient(context, environment.network, timeout_s, in_flight)
        return WebhookSink(
            table, requests, sending, client, environment.outside_writer, environment.clock
        )

    def rejects(self, table: Table, rows: Batch) -> Mapping[int, str]:
        """See `Connector`. Rows whose values make no URL or header."""
        return self._requests(table).refused(rows)

    def encode(self, table: Table, rows: Batch) -> None:
        """See `Connector`."""
        self._requests(table).records(rows)

    def _requests(self, table: Table) -> Requests:
        """Returns what makes requests of the rows of a table, for its secrets' references."""
        digest = definition_digest(table)
        found = self._known.get(digest)
        if found is None:
            options = options_of(table)
            authorization(table, options)
            found = self._known[digest] = Requests(table, options)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return found
