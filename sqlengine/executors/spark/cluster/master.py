"""The masters of Spark that `--master` may name, and whether they answer. Does not import Spark."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from parser.errors import ServiceError

_LOCAL: Final = re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?")
_STANDALONE: Final = "spark://"
# Spark asks these itself.
_OTHERS: Final = ("yarn", "k8s://", "local-cluster[")
# An address may take so many seconds to answer.
_ANSWERS_S: Final = 5.0


def is_local(master: str | None) -> bool:
    """True if tasks run in processes of this machine that start with the session."""
    return master is None or _LOCAL.fullmatch(master) is not None


def address_to(master: str | None) -> str | None:
    """Returns the address of this machine to which the executors of a master can connect: the one
    from which it is reached. None where Spark has to find it.

    ServiceError for a master that has no such form, or that does not answer."""
    if is_local(master):
        return "127.0.0.1"
    assert master is not None
    if not master.startswith(_STANDALONE):
        if master.startswith(_OTHERS):
            return None
        raise ServiceError(f"Spark has no master '{master}'", hint=_hint(master))
    failures = []
    for host, port in list(_addresses(master)):
        try:
            with socket.create_connection((host, port), _ANSWERS_S) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            failures.append(f"{host}:{port}: {error}")
    raise ServiceError(
        f"the master of Spark cannot be reached: {master}",
        detail="; ".join(failures),
        hint="start it, or give --master the address that its log and its page say",
    )


def _addresses(master: str) -> Iterator[tuple[str, int]]:
    """Yields the hosts and ports of a standalone master and of those that stand by for it."""
    for part in master.removeprefix(_STANDALONE).split(","):
        try:
            address = urlsplit(f"//{part}")
            host, port = address.hostname, address.port
        except ValueError:
            host, port = None, None
        if not host or port is None or address.path:
            raise ServiceError(
                f"Spark has no master '{master}'", detail=f"'{part}' is no HOST:PORT", hint=_FORMS
            )
        yield host, port


_FORMS: Final = "write --master spark://HOST:7077, local[N], yarn or k8s://HOST:PORT"


def _hint(master: str) -> str:
    if master.startswith("sc://"):
        return f"tasks need a master, and Spark Connect hides it: {_FORMS}"
    return _FORMS
