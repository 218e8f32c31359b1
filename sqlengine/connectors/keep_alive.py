"""Connections over which nothing comes for long."""

from __future__ import annotations

import socket
from typing import Final

# Seconds of silence after which the other host is asked whether it is there, and between two such
# questions; so many of them without an answer end the connection.
_SILENT_S: Final = 60
_ASKED_S: Final = 10
_UNANSWERED: Final = 6


def keep_alive(connection: socket.socket) -> None:
    """Has the kernel end a connection of TCP whose other host is gone without a word."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _SILENT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _ASKED_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _UNANSWERED)
