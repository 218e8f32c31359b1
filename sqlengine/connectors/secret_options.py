"""Opens a table whose options have secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import TypeVar

import msgspec

from parser.errors import ExecutionError, OptionError, SqlError
from planner.catalog import Table
from sqlengine.connectors.base import Connector
from sqlengine.connectors.environment import Environment
from sqlengine.connectors.secret_names import place_options, remedy
from sqlengine.formats.base import Option
from sqlengine.system.hidden import held, without
from sqlengine.system.secrets import secret_names, takes_secret

T = TypeVar("T")


def with_secrets(
    opening: Callable[[Table, Environment], T],
    connector: Connector,
    table: Table,
    environment: Environment,
) -> T:
    """Opens a table with the values of its secrets, which its connector alone sees: an error that
    has one of them tells it not, and they are hidden for as long as what was opened is there."""
    return held(lambda: _opened(opening, connector, table, environment))


def _opened(
    opening: Callable[[Table, Environment], T],
    connector: Connector,
    table: Table,
    environment: Environment,
) -> T:
    def use(option: str) -> str:
        return use_of(option, table.options, connector)

    options, values = environment.secrets.fill(table.options, table.display, use)
    if not values:
        return opening(table, environment)
    try:
        return opening(replace(table, options=options), replace(environment, written=table.options))
    except Exception as error:
        detail = error.detail if isinstance(error, SqlError) else None
        texts = [str(error), *error.args, detail or ""]
        if all(without(str(text), values) == str(text) for text in texts):
            raise
        raise ExecutionError(without(str(error), values)) from None


def check_references(table: Table, declared: Mapping[str, Option]) -> None:
    """Raises OptionError for a reference to a secret in an option that takes none; `declared` are
    the options of the table's connector."""
    for option, text in table.options.items():
        if not takes_secret(option) and secret_names({option: text}):
            raise OptionError(
                f"option '{option}' of table '{table.display}' says where the table is, and takes"
                " no secret",
                hint=remedy(option, declared),
                subject=option,
            )


def use_of(option: str, options: Mapping[str, str], connector: Connector) -> str:
    """Returns where the value of an option goes, as a digest: the same while the table has the same
    connector and is in the same place."""
    places = sorted(place_options(options, connector.options).items())
    return sha256(msgspec.json.encode([option, places])).hexdigest()[:32]
