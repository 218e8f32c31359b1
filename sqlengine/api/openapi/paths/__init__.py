"""The server's routes: what each takes and answers. `tests/service/test_openapi.py` holds this list
against the routes that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from sqlengine.api.openapi.forms import Endpoint
from sqlengine.api.openapi.paths.definitions import DEFINITIONS
from sqlengine.api.openapi.paths.gateway import GATEWAY
from sqlengine.api.openapi.paths.jobs import JOBS
from sqlengine.api.openapi.paths.past import PAST
from sqlengine.api.openapi.paths.queries import QUERIES
from sqlengine.api.openapi.paths.rsqldb import RSQLDB
from sqlengine.api.openapi.paths.server import PUSHES, SERVER
from sqlengine.api.openapi.paths.state import STATE
from sqlengine.api.openapi.paths.topics import TOPICS


def _keyed(endpoints: Sequence[Endpoint]) -> tuple[Endpoint, ...]:
    """Returns endpoints whose changes may be sent again with an Idempotency-Key."""
    return tuple(replace(e, keyed=True) if e.method == "POST" else e for e in endpoints)


GROUPS: Final[Mapping[str, tuple[Endpoint, ...]]] = {
    "Jobs": _keyed(JOBS),
    "What has become of jobs": _keyed(PAST),
    "Tables, functions and rules": DEFINITIONS,
    "State and savepoints": _keyed(STATE),
    "Queries": QUERIES,
    "Topics": _keyed(TOPICS),
    "Rows that are pushed": PUSHES,
    "Server": SERVER,
    "Flink's SQL Gateway": GATEWAY,
    "RSQLDB's paths": _keyed(RSQLDB),
}
