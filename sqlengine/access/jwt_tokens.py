"""Tokens of an identity provider (JWT, RFC 7519), verified by the public keys of a JWKS file.

PyJWT does the cryptography. What is decided here: which keys count, that a key is good for its own
kind of signature alone (so neither 'none' nor a signature made with a public key as a secret is
any), and which claims must be there. Nothing is fetched, whatever a token names."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from parser.errors import ServiceError
from sqlengine.access.access_file import BadAccessFile, JwtSettings
from sqlengine.access.policy import Unauthorised
from sqlengine.access.principals import Principal, combined, widest

if TYPE_CHECKING:
    from jwt import PyJWK

# The signatures that are taken, by the type of a key and its curve. A key of a secret ('oct') has
# none.
_ALGORITHMS: Final[Mapping[tuple[str, str | None], str]] = {
    ("RSA", None): "RS256",
    ("EC", "P-256"): "ES256",
    ("OKP", "Ed25519"): "EdDSA",
}
_MOST_TOKEN: Final = 16 << 10
_MOST_NAME: Final = 200
_MOST_KNOWN: Final = 1000
_LEAST_RSA_BITS: Final = 2048
# Names of principals by JWT begin with it, and no others.
PREFIX: Final = "jwt:"


@dataclass(frozen=True)
class _Verified:
    """The claims of a token that was verified, and until when it is good (s since 1970)."""

    claims: Mapping[str, object]
    expires: float


@dataclass(frozen=True)
class _Key:
    key: PyJWK
    algorithm: str


class JwtKeys:
    """The keys of one JWKS file, as it is when this is made. Any thread."""

    def __init__(self, settings: JwtSettings) -> None:
        """Raises BadAccessFile for a file without a key that could be used, and ServiceError where
        PyJWT is missing."""
        try:
            import jwt  # noqa: F401
        except ImportError:
            raise ServiceError(
                "JWTs cannot be verified: the package PyJWT is not installed",
                hint="pip install 'sqlengine[jwt]'",
            ) from None
        self._settings = settings
        self._keys = _read_keys(Path(settings.keys))
        # By the hash of the token: verifying takes longer than most requests.
        self._known: dict[bytes, _Verified] = {}

    def principal(self, token: str, principals: Mapping[str, Principal]) -> Principal:
        """Returns the principal of a token: its grants are those of `principals` that its claims
        are mapped to. Unauthorised for a token that is not good, or maps to none."""
        claims = self._claims(token)
        settings = self._settings
        name = claims.get(settings.name_claim)
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _MOST_NAME:
            raise _bad(f"it has no name in the claim '{settings.name_claim}'")
        mapped = dict.fromkeys(map(settings.roles.get, _texts(claims.get(settings.roles_claim))))
        found = [principals[m] for m in mapped if m is not None]
        if not found:
            raise _bad(f"nothing in its claim '{settings.roles_claim}' stands for a role here")
        grants = tuple(grant for p in found for grant in p.grants)
        quota, budget = combined(p.quota for p in found), widest(p.budget for p in found)
        return Principal(f"{PREFIX}{name}", grants, quota, budget)

    def _claims(self, token: str) -> Mapping[str, object]:
        digest = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        known = self._known.get(digest)
        if known is None or time.time() >= known.expires:
            known = self._verified(token)
            if len(self._known) >= _MOST_KNOWN:
                self._known = {}
            self._known[digest] = known
        return known.claims

    def _verified(self, token: str) -> _Verified:
        import jwt

        if len(token) > _MOST_TOKEN:
            raise _bad("it is too long")
        settings = self._settings
        try:
            key = self._key_for(jwt.get_unverified_header(token))
            claims: dict[str, object] = jwt.decode(
                token,
                key.key,
                algorithms=[key.algorithm],
                audience=settings.audience,
                issuer=settings.issuer,
                leeway=settings.leeway_s,
                options={"require": ["exp", "iss", "aud"]},
            )
            expires = float(str(claims["exp"])) + settings.leeway_s
        except (jwt.PyJWTError, ValueError, OverflowError) as error:
            raise _bad(str(error)) from None
        return _Verified(claims, expires)

    def _key_for(self, header: Mapping[str, object]) -> _Key:
        """Returns the key that a token names; the only one where it names none."""
        if "crit" in header:
            raise _bad("it has critical extensions")
        named = header.get("kid")
        if named is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        key = self._keys.get(named) if isinstance(named, str) else None
        if key is None:
            raise _bad("the keys file has no key of that name")
        return key


def _texts(claim: object) -> list[str]:
    """Returns the texts of a claim: a list of them, or one with blanks between."""
    if isinstance(claim, str):
        return claim.split()
    return [v for v in claim if isinstance(v, str)] if isinstance(claim, list) else []


def _bad(why: str) -> Unauthorised:
    return Unauthorised("not authorised", detail=f"the JWT is not taken: {why}"[:300])


def _read_keys(path: Path) -> dict[str, _Key]:
    """Returns the keys of a file by their names; those of other kinds are left out."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        listed = content["keys"]
        keys = [k for k in listed if isinstance(k, dict) and k.get("use", "sig") == "sig"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadAccessFile(
            f"the keys file '{path}' cannot be read",
            detail=str(error),
            hint="jwt.keys names a JWKS file, and counts from the folder of the access file",
        ) from None
    found: dict[str, _Key] = {}
    for entry in keys:
        name, key = str(entry.get("kid", "")), _key_of(entry, path)
        if key is not None and found.setdefault(name, key) is not key:
            raise BadAccessFile(f"the keys file '{path}' has two keys of the name '{name[:60]}'")
    if not found:
        raise BadAccessFile(
            f"the keys file '{path}' has no key that can be used",
            hint=f"signatures: {', '.join(_ALGORITHMS.values())}",
        )
    return found


def _key_of(entry: Mapping[str, object], path: Path) -> _Key | None:
    """Returns a public key; None for one of a kind that is not taken."""
    import jwt

    kind, curve = entry.get("kty"), entry.get("crv")
    algorithm = _ALGORITHMS.get((str(kind), None if curve is None else str(curve)))
    if algorithm is None or entry.get("alg", algorithm) != algorithm:
        return None
    if "d" in entry:
        raise BadAccessFile(
            f"the keys file '{path}' has a private key: only public ones belong there"
        )
    try:
        key = jwt.PyJWK(dict(entry), algorithm)
    except (jwt.PyJWTError, ValueError, TypeError) as error:
        raise BadAccessFile(f"the keys file '{path}' has a bad key", detail=str(error)) from None
    if getattr(key.key, "key_size", _LEAST_RSA_BITS) < _LEAST_RSA_BITS and kind == "RSA":
        raise BadAccessFile(f"the keys file '{path}' has an RSA key of less than 2048 bits")
    return _Key(key, algorithm)
