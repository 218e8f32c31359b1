"""Tokens: made here, shown once, and kept as hashes."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import Final, TypeVar

# A token has 256 bits of chance, so nobody guesses it from its hash, and a quick hash does.
_BYTES: Final = 32
_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_NO_ONES: Final = "sha256:" + "0" * 64
_LEAST: Final = 32

T = TypeVar("T")


def new_token() -> str:
    """Returns a new token."""
    return secrets.token_urlsafe(_BYTES)


def hash_of(token: str) -> str:
    """Returns what the access file has of a token.

    >>> hash_of("a")[:15]
    'sha256:ca978112'
    """
    return "sha256:" + hashlib.sha256(token.encode()).hexdigest()


def is_hash(text: str) -> bool:
    """True for the hash of a token."""
    return _HASH.fullmatch(text) is not None


def is_long_enough(token: str) -> bool:
    """True for a token that was not made up by a person: its quick hash would give it away."""
    return len(token) >= _LEAST and token.isascii() and token.isprintable() and " " not in token


def holder(token: str, holders: Mapping[str, T]) -> T | None:
    """Returns whose token it is, by the hashes of all tokens; None for nobody's.

    Time tells nothing of the tokens that there are: what is looked up is a hash, which nobody
    chooses, and the comparison takes the same time for all."""
    given = hash_of(token)
    known = given if given in holders else _NO_ONES
    return holders.get(known) if hmac.compare_digest(given, known) else None
