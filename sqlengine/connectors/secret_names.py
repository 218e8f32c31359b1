"""The options of tables that are secrets, and those that say where a table is.

A connector declares it (`Option.secret`, `Option.place`); of options that nobody declares the name
decides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sqlengine.formats.base import Option
from sqlengine.system.secrets import takes_secret

# The last words of a name: ssl.keystore.password, client-secret, sasl.jaas.config, s3.access-key.
_SECRET: Final = re.compile(
    r"""(?:^|[._-])(?:
        pass(?:word|wd|phrase|code)? | pwd | pin | secrets? | tokens? | credentials?
      | jaas[._-]config
      | (?:api|access|secret|private|account|shared|sas|ssh|keystore|encryption|signing)[._-]?key
      | basic[._-]auth | authorization | auth[._-]user[._-]info | connection[._-]string
    )$""",
    re.VERBOSE | re.IGNORECASE,
)


def is_secret(option: str, declared: Mapping[str, Option]) -> bool:
    """True for an option whose value nobody may read, by its declaration, else by its name."""
    known = declared.get(option)
    if known is not None and known.secret is not None:
        return known.secret
    return _SECRET.search(option) is not None


def remedy(option: str, declared: Mapping[str, Option]) -> str | None:
    """Returns how a password gets out of an option of a table; None where there is no way."""
    if takes_secret(option):
        return "'${secret:NAME}' refers to one that is kept elsewhere"
    if "password" not in declared:
        return None
    user = "'username' and " if "username" in declared else ""
    return f"leave it out of '{option}', and write {user}'password' = '${{secret:NAME}}'"


def place_options(options: Mapping[str, str], declared: Mapping[str, Option]) -> dict[str, str]:
    """Returns the options of a table that say where its secrets go: those that its connector
    declares to be places, and those that it does not declare at all. Where it declares no place,
    all but the secrets."""
    places = {name for name, option in declared.items() if option.place}
    return {
        name: text
        for name, text in options.items()
        if (name in places or name not in declared or not places) and not is_secret(name, declared)
    }
