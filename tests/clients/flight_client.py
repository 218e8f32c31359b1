"""A client of Flight SQL over pyarrow alone, which shows what goes over the wire."""

from __future__ import annotations

from typing import Any, Self

import pyarrow as pa
from pyarrow import flight

from sqlengine.api.flight.messages import read_any, write_any
from sqlengine.api.flight.wire import Message, field


class Client:
    """Speaks to a server on a connection of its own."""

    def __init__(
        self, port: int, token: str | None = None, scheme: str = "grpc", **options: Any
    ) -> None:
        self.client = flight.FlightClient(f"{scheme}://127.0.0.1:{port}", **options)
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self.options = flight.FlightCallOptions(headers=headers, timeout=60)

    def info(self, name: str, message: bytes = b"") -> Any:
        descriptor = flight.FlightDescriptor.for_command(write_any(name, message))
        return self.client.get_flight_info(descriptor, self.options)

    def begin(self, sql: str) -> Any:
        return self.info("CommandStatementQuery", field(1, sql))

    def reader(self, info: Any) -> Any:
        return self.client.do_get(info.endpoints[0].ticket, self.options)

    def query(self, sql: str) -> list[dict[str, Any]]:
        return self.reader(self.begin(sql)).read_all().to_pylist()

    def asked(self, name: str, message: bytes = b"") -> list[dict[str, Any]]:
        return self.reader(self.info(name, message)).read_all().to_pylist()

    def put(self, name: str, message: bytes, rows: pa.Table | None = None) -> bytes:
        """Sends rows with a command; returns the answer."""
        descriptor = flight.FlightDescriptor.for_command(write_any(name, message))
        rows = pa.table({}) if rows is None else rows
        writer, reader = self.client.do_put(descriptor, rows.schema, self.options)
        with writer:
            if rows.num_columns:
                writer.write_table(rows)
            writer.done_writing()
            answer = reader.read()
        return b"" if answer is None else answer.to_pybytes()

    def update(self, sql: str) -> int:
        return count(self.put("CommandStatementUpdate", field(1, sql)))

    def prepare(self, sql: str) -> Message:
        request = write_any("ActionCreatePreparedStatementRequest", field(1, sql))
        (result,) = self.act("CreatePreparedStatement", request)
        return read_any(result)[1]

    def act(self, name: str, body: bytes) -> list[bytes]:
        found = self.client.do_action(flight.Action(name, body), self.options)
        return [result.body.to_pybytes() for result in found]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()


def count(answer: bytes) -> int:
    """The rows of DoPutUpdateResult."""
    number = Message(answer).number(1)
    return number - (1 << 64) if number >= 1 << 63 else number
