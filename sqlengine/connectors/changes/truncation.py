"""Tables that are emptied at once: which rows they had is not told."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from parser.errors import ServiceError
from sqlengine.connectors.changes.followed import Followed

log = logging.getLogger("sqlengine.connectors")


def truncated(
    tables: Sequence[Followed], host: str, *, skips: bool, anew: str
) -> ServiceError | None:
    """Returns why none of these tables can be followed any more; None where there are none, or
    whoever reads them keeps their rows (`skips`). `anew`: the option whose values have logs of
    their own."""
    names = ", ".join(".".join(table.name) for table in tables)
    if not tables:
        return None
    if skips:
        log.warning("%s of %s was truncated: its rows stay where they are read", names, host)
        return None
    return ServiceError(
        f"table '{names}' was truncated: which rows it had is not told, and they would stay where"
        " they are read",
        hint=f"'scan.on-truncate' = 'skip' goes on so; another '{anew}' begins anew, with a"
        " snapshot",
    )
