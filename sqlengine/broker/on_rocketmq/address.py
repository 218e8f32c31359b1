"""The address of a cluster, as `sql serve --broker` takes it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl

from parser.errors import ServiceError
from sqlengine.broker.rocketmq.tls import Tls
from sqlengine.broker.rocketmq.wire import Account

_SCHEME: Final = "rocketmq://"
_SERVER: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}")
_PREFIX: Final = re.compile(r"[A-Za-z0-9_-]{1,60}")
_FORM: Final = (
    "rocketmq://HOST:PORT, or rocketmq://HOST:PORT;HOST2:PORT2?commands=NAME&tls=true&trusted=FILE"
    "&certificate=FILE&key=FILE&verify=false"
)
_ACCESS_KEY: Final = "SQLENGINE_ROCKETMQ_ACCESS_KEY"
_SECRET_KEY: Final = "SQLENGINE_ROCKETMQ_SECRET_KEY"  # the name of a variable
_KEY_PASSWORD: Final = "SQLENGINE_ROCKETMQ_KEY_PASSWORD"  # so is this
_FILES: Final = ("trusted", "certificate", "key")
_TRUTHS: Final = {"true": True, "false": False}


@dataclass(frozen=True)
class ClusterAddress:
    """The name servers of a cluster (host:port, separated by ;), and who asks. `commands`: what the
    names of the topics of commands begin with there; `tls`: None for connections that are not
    encrypted."""

    names: str
    commands: str = ""
    account: Account = field(default_factory=Account, repr=False)
    tls: Tls | None = field(default=None, repr=False)


def cluster_address(text: str) -> ClusterAddress:
    """Returns the address that a text stands for, with the account that the environment names.
    ServiceError for a text that is none.

    >>> cluster_address("rocketmq://one:9876;two:9876?commands=plant").commands
    'plant'
    """
    servers, _, options = text.removeprefix(_SCHEME).partition("?")
    names = [name.strip() for name in servers.rstrip("/").split(";")]
    known = dict(parse_qsl(options, keep_blank_values=True))
    commands = known.pop("commands", None)
    tls = _tls(known)
    sound = text.startswith(_SCHEME) and all(_SERVER.fullmatch(name) for name in names)
    if not sound or known or (commands is not None and not _PREFIX.fullmatch(commands)):
        raise ServiceError(f"{text[:200]!r} is not the address of a broker", hint=f"write {_FORM}")
    keys = os.environ.get(_ACCESS_KEY, ""), os.environ.get(_SECRET_KEY, "")
    if any(keys) and not all(keys):
        raise ServiceError(
            "an account of RocketMQ has two keys", hint=f"set both {_ACCESS_KEY} and {_SECRET_KEY}"
        )
    return ClusterAddress(";".join(names), commands or "", Account(*keys), tls)


def _tls(known: dict[str, str]) -> Tls | None:
    """Takes the options of the encryption out of those that are given. What is left is none."""
    if not _TRUTHS.get(known.get("tls", "false"), False):
        if known.get("tls") == "false":
            known.pop("tls")
        return None  # files without it are left, and refused
    known.pop("tls")
    trusted, certificate, key = (known.pop(name, "") for name in _FILES)
    verify = known.get("verify", "true")
    if verify in _TRUTHS:
        known.pop("verify", None)
    tls = Tls(
        trusted, certificate, key, os.environ.get(_KEY_PASSWORD, ""), _TRUTHS.get(verify, True)
    )
    try:
        tls.context()
    except OSError as error:  # ssl.SSLError is one
        raise ServiceError(
            "a certificate or key for RocketMQ cannot be used",
            detail=str(error),
            hint=f"see trusted, certificate and key of --broker, and {_KEY_PASSWORD}",
        ) from None
    return tls
