"""The options that say who asks."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Final

from parser.errors import OptionError
from planner.catalog import Table
from sqlengine.formats.base import Option
from sqlengine.system.hidden import hand_out

# The beginning of options that are headers.
HEADER: Final = "header."

ACCOUNT_OPTIONS: Final[Mapping[str, Option]] = {
    "username": Option(doc="who asks, with 'password' (basic authentication)"),
    "password": Option(secret=True, doc="of the one who asks"),
    "token": Option(secret=True, doc="goes into 'Authorization: Bearer'"),
}


def authorization(table: Table, options: Mapping[str, object]) -> dict[str, str]:
    """Returns the header that says who asks. OptionError where two options say it, or one holds
    what no header can."""
    user, password, token = options["username"], options["password"], options["token"]
    own = any(name.lower() == f"{HEADER}authorization" for name in options)
    if (user is not None) + (token is not None) + own > 1 or (user is None) != (password is None):
        raise OptionError(
            f"table '{table.display}' says in two ways, or by half, who asks",
            hint=f"give 'username' and 'password', or 'token', or '{HEADER}Authorization'",
            subject="username" if token is None else "token",
        )
    if token is not None:
        if not str(token).isprintable() or not str(token).isascii():
            raise OptionError(
                f"'token' of table '{table.display}' has a character that no header may have",
                subject="token",
            )
        return {"Authorization": f"Bearer {token}"}
    if user is None:
        return {}
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    hand_out(pair)  # who reads it reads the password
    return {"Authorization": f"Basic {pair}"}
