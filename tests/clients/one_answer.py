"""A server for tests of connections: what it is sent, and over how many connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BufferedReader

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@dataclass
class OneAnswerEach:
    """What was sent, a text for each request, over `connections` connections."""

    url: str
    connections: int = 0
    requests: list[str] = field(default_factory=list)


def _head(sent: BufferedReader) -> str:
    """Reads a request with its body, and returns its head; "" at the end."""
    lines = list(iter(sent.readline, b"\r\n")) if sent.peek(1) else []
    length = next((line for line in lines if line.lower().startswith(b"content-length:")), b":0")
    sent.read(int(length.partition(b":")[2]))
    return b"".join(lines).decode()


@contextmanager
def one_answer_each(answer: bytes = _ANSWER, answers: int = 1) -> Iterator[OneAnswerEach]:
    """Answers so many requests of each connection, and ends the connection with the next one."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = OneAnswerEach(f"http://127.0.0.1:{listening.getsockname()[1]}")

        def serve(connection: socket.socket) -> None:
            with connection, connection.makefile("rb") as sent:
                for number in range(answers + 1):
                    head = _head(sent)
                    if not head:
                        return
                    server.requests.append(head)
                    if number < answers:
                        connection.sendall(answer)

        def accept() -> None:
            with suppress(OSError):  # the end
                while True:
                    connection, _ = listening.accept()
                    server.connections += 1
                    threading.Thread(target=serve, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield server
        listening.shutdown(socket.SHUT_RDWR)
