"""Frames over a socket: 4 bytes of length, then that many bytes."""

from __future__ import annotations

import socket
import struct
from typing import Final

_LENGTH: Final = struct.Struct("<I")


def send(connection: socket.socket, frame: bytes) -> None:
    """Sends a frame. OSError where the other side is gone."""
    connection.sendall(_LENGTH.pack(len(frame)) + frame)


def receive(connection: socket.socket) -> bytes | None:
    """Returns the next frame; None if the other side has closed the connection."""
    head = exactly(connection, _LENGTH.size)
    return None if head is None else exactly(connection, _LENGTH.unpack(head)[0])


def exactly(connection: socket.socket, size: int) -> bytes | None:
    """Returns the next `size` bytes; None if the other side closes the connection before."""
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        got = connection.recv_into(view[at:])
        if not got:
            return None
        at += got
    return bytes(data)
