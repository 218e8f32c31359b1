"""Whether the licence of every library allows us to ship with it: `python -m
tests.supply_chain.licences`, a part of `make check`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Final

from tests.supply_chain.distributions import Library, libraries

# Licences that ask for no more than their text beside the program.
ALLOWED: Final = frozenset(
    (
        "0BSD", "Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0",
        "PSF-2.0", "Unlicense", "ZPL-2.1", "Zlib",
    )
)  # fmt: skip
# Library -> why its licence is no obstacle, though it is not among these.
_OPTIONAL: Final = (
    "an extra that is installed beside, as it is: the LGPL asks no more of who imports it"
)
EXCEPTIONS: Final[dict[str, str]] = {
    "certifi": "of an extra, too: a list of authorities, and the MPL asks for its own files alone",
    "psycopg": _OPTIONAL,
    "psycopg-binary": _OPTIONAL,
    "pysigma": _OPTIONAL,
    "mysql-replication": "its metadata says 'Apache 2'",
}


def is_allowed(licence: str) -> bool:
    """True if the SPDX expression leaves a choice that is allowed. AND binds more than OR; what has
    parentheses wants an exception."""
    choices = [choice.split(" AND ") for choice in licence.split(" OR ")]
    return any(all(part.strip() in ALLOWED for part in parts) for parts in choices)


def faults(found: Iterable[Library]) -> list[str]:
    """What is wrong with the licences of libraries, a line for each."""
    return [
        f"{library.name} {library.version}: the licence {library.licence or '(none told)'!r} is not"
        " allowed; choose another library, or give the reason in EXCEPTIONS of"
        " tests/supply_chain/licences.py"
        for library in found
        if library.name not in EXCEPTIONS and not is_allowed(library.licence)
    ]


if __name__ == "__main__":
    FOUND = libraries().values()
    WRONG = faults(FOUND)
    print("\n".join(WRONG) or f"Licences of {len(FOUND)} libraries are allowed")
    sys.exit(bool(WRONG))
