"""The masters of Spark that `--master` may name, and whether they answer. Does not import Spark."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

from parser.errors import ServiceError

_LOCAL: Final = re.compile(r"local(\[(\d+|\*)(,\s*\d+)?\])?")
_STANDALONE: Final = "spark://"
_CONNECT: Final = "sc://"
# Variables by which Spark starts a client of Spark Connect; None: with any value.
_OF_CONNECT: Final = {
    "SPARK_REMOTE": None,
    "SPARK_CONNECT_MODE_ENABLED": None,
    "SPARK_API_MODE": "connect",
    "SPARK_CONNECT_MODE": "1",
}
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
    if master.startswith(_CONNECT):
        raise _is_connect(f"'{master}' is an address of it")
    if not master.startswith(_STANDALONE):
        if master.startswith(_OTHERS):
            return None
        raise ServiceError(f"Spark has no master '{master}'", hint=_FORMS)
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


def refuse_connect(environment: Mapping[str, str]) -> None:
    """Raises ServiceError where variables of the environment would have Spark start a client of
    Spark Connect."""
    for name, value in _OF_CONNECT.items():
        found = environment.get(name)
        if found is not None and value in (None, found.lower()):
            raise _is_connect(f"{name}={found} in the environment asks for it", f"unset {name}: ")


def _is_connect(detail: str, before: str = "") -> ServiceError:
    """Returns the error for Spark Connect. It has frames, and no more of a cluster: the engine
    ships itself to executors, watches them, and ends their tasks."""
    return ServiceError(
        "Spark Connect cannot run the engine: it hides the executors",
        detail=detail,
        hint=f"{before}{_FORMS}",
    )
