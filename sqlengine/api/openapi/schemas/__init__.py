"""The schemas of what the server answers, by theme."""

from __future__ import annotations

from typing import Final

from sqlengine.api.openapi.forms import Schema
from sqlengine.api.openapi.schemas.definitions import DEFINITIONS
from sqlengine.api.openapi.schemas.jobs import JOBS
from sqlengine.api.openapi.schemas.past import PAST
from sqlengine.api.openapi.schemas.queries import QUERIES
from sqlengine.api.openapi.schemas.server import SERVER
from sqlengine.api.openapi.schemas.state import STATE
from sqlengine.api.openapi.schemas.topics import TOPICS

SCHEMAS: Final[dict[str, Schema]] = {
    **SERVER,
    **JOBS,
    **PAST,
    **DEFINITIONS,
    **STATE,
    **QUERIES,
    **TOPICS,
}
