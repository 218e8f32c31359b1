"""Tokens of an identity provider: which are taken, what they stand for, and attacks on them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import sys
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from parser.errors import ServiceError
from sqlengine.access.access_file import BadAccessFile
from sqlengine.access.identity import AccessFile, Caller
from sqlengine.access.policy import Unauthorised
from sqlengine.client import Client, Refused
from tests.access.conftest import access_text
from tests.service.harness import running
from tests.support import eventually

RSA = rsa.generate_private_key(65537, 2048)
OTHER = rsa.generate_private_key(65537, 2048)
P256 = ec.generate_private_key(ec.SECP256R1())
ED = ed25519.Ed25519PrivateKey.generate()
ISSUER, AUDIENCE = "https://login.example.com/", "sqlengine"


def public(algorithm: Any, key: Any, name: str, **more: str) -> dict[str, Any]:
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": name, **more}


KEYS = [
    public(RSAAlgorithm, RSA, "rsa", alg="RS256", use="sig"),
    public(ECAlgorithm, P256, "ec"),
    public(OKPAlgorithm, ED, "ed"),
    {"kty": "oct", "kid": "secret", "k": "c2VjcmV0", "alg": "HS256"},
]


def claims(**changes: object) -> dict[str, object]:
    now = int(time.time())
    standard = {
        "iss": ISSUER, "aud": AUDIENCE, "exp": now + 300, "iat": now, "sub": "ann",
        "groups": ["analysts", "others"],
    }  # fmt: skip
    return {k: v for k, v in {**standard, **changes}.items() if v is not None}


def token(
    key: Any = RSA, algorithm: str = "RS256", name: str | None = "rsa", **changes: object
) -> str:
    headers = {} if name is None else {"kid": name}
    return jwt.encode(claims(**changes), key, algorithm, headers=headers)


@pytest.fixture
def access(tmp_path: Path) -> AccessFile:
    return written(tmp_path)


def written(folder: Path, keys: list[dict[str, Any]] = KEYS, more: str = "") -> AccessFile:
    (folder / "jwks.json").write_text(json.dumps({"keys": keys}))
    file = folder / "access.toml"
    file.write_text(
        access_text()
        + f'\n[jwt]\nkeys = "jwks.json"\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\n'
        + 'roles = { analysts = "reader", platform = "root" }\nleeway = 10\n'
        + more
    )
    return AccessFile(file)


def refused(access: AccessFile, given: str) -> str:
    with pytest.raises(Unauthorised) as error:
        access.identify(Caller(f"Bearer {given}"))
    return str(error.value.detail)


def test_tokens_that_are_taken(access: AccessFile) -> None:
    for given in (
        token(),
        token(P256, "ES256", "ec"),
        token(ED, "EdDSA", "ed"),
        token(groups="others analysts"),
        token(aud=["another", AUDIENCE]),
        token(exp=int(time.time()) - 5),  # within the leeway
    ):
        found = access.identify(Caller(f"Bearer {given}"))
        assert found.name == "jwt:ann"
        assert not found.is_admin
        assert [g.jobs for g in found.grants] == [("a.*",)]
    both = access.identify(Caller(f"Bearer {token(groups=['platform', 'analysts'])}"))
    assert both.is_admin


def forged(header: dict[str, object], content: dict[str, object], sign: bytes | None) -> str:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    body = f"{part(json.dumps(header).encode())}.{part(json.dumps(content).encode())}"
    signature = b"" if sign is None else hmac.new(sign, body.encode(), hashlib.sha256).digest()
    return f"{body}.{part(signature)}"


def test_tokens_that_are_not(access: AccessFile) -> None:
    pem = RSA.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    good, now = token(), int(time.time())
    head, body, signature = good.split(".")
    embedded = jwt.encode(
        claims(), OTHER, "RS256", headers={"jwk": public(RSAAlgorithm, OTHER, "rsa"), "kid": "rsa"}
    )
    attacks = {
        "no signature": forged({"alg": "none", "kid": "rsa"}, claims(groups=["platform"]), None),
        "NONE": forged({"alg": "NoNe", "kid": "rsa"}, claims(), None),
        "a public key as a secret": forged({"alg": "HS256", "kid": "rsa"}, claims(), pem),
        "a key of a secret": forged({"alg": "HS256", "kid": "secret"}, claims(), b"secret"),
        "another key": token(OTHER),
        "another kind of key": token(P256, "ES256", "rsa"),
        "a stronger signature than agreed": token(RSA, "RS512"),
        "a key that it brings": embedded,
        "no key that there is": token(name="unknown"),
        "no key that it names": token(name=None),
        "a path as the name of a key": token(name="../../etc/passwd"),
        "other claims under the signature": f"{head}.{token(sub='eve').split('.')[1]}.{signature}",
        "a signature that was cut": good[:-4],
        "critical extensions": jwt.encode(
            claims(), RSA, "RS256", headers={"kid": "rsa", "crit": ["x"], "x": 1}
        ),
        "another issuer": token(iss="https://evil.example.com/"),
        "no issuer": token(iss=None),
        "another audience": token(aud="another"),
        "no audience": token(aud=None),
        "an end that is over": token(exp=now - 60),
        "no end": token(exp=None),
        "an end that is none": token(exp="soon"),
        "a beginning to come": token(nbf=now + 60),
        "no role": token(groups=["strangers"]),
        "no roles at all": token(groups=None),
        "roles that are none": token(groups={"analysts": True}),
        "no name": token(sub=None),
        "a name with a line end": token(sub="ann\nroot"),
        "parts that are none": "a.b.c",
        "nothing": "..",
        "too much": good + "x" * 20_000,
    }
    for what, given in attacks.items():
        assert "JWT" in refused(access, given), what
    assert body


def test_a_name_is_not_another_principals(access: AccessFile, tmp_path: Path) -> None:
    """Whoever is called as a principal of the file is somebody else."""
    found = access.identify(Caller(f"Bearer {token(sub='root')}"))
    assert found.name == "jwt:root"
    assert not found.is_admin
    assert access.named("jwt:root") is None


def test_keys_are_rotated(tmp_path: Path) -> None:
    """A new key counts within a second, and an old one no more; a file with a fault changes
    nothing, and a token is not remembered beyond its key."""
    access = written(tmp_path)
    old, new = token(), token(OTHER, name="new")
    assert access.identify(Caller(f"Bearer {old}")).name
    refused(access, new)
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [public(RSAAlgorithm, OTHER, "new")]}))

    def taken(given: str) -> bool:
        try:
            return access.identify(Caller(f"Bearer {given}")).name == "jwt:ann"
        except Unauthorised:
            return False

    eventually(lambda: taken(new))
    assert not taken(old)
    file.write_text("{}")
    eventually(lambda: access.problem)
    assert taken(new)


def test_a_token_ends_also_when_it_is_remembered(access: AccessFile) -> None:
    given = f"Bearer {token(exp=int(time.time()) - 8)}"  # 10 s of leeway
    assert access.identify(Caller(given)).name == "jwt:ann"

    def is_over() -> bool:
        try:
            return not access.identify(Caller(given)).name
        except Unauthorised:
            return True

    eventually(is_over)


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ([], "no key that can be used"),
        ([KEYS[3]], "no key that can be used"),
        ([public(RSAAlgorithm, RSA, "e", use="enc")], "no key that can be used"),
        ([KEYS[0], KEYS[0] | {"n": KEYS[1].get("x")}], "two keys|bad key|less than 2048"),
        ([KEYS[0] | {"d": "AQ"}], "a private key"),
        ([public(RSAAlgorithm, rsa.generate_private_key(65537, 1024), "s")], "less than 2048"),
    ],
)  # fmt: skip
def test_keys_that_cannot_be(tmp_path: Path, keys: list[dict[str, Any]], error: str) -> None:
    with pytest.raises(BadAccessFile, match=error):
        written(tmp_path, keys)


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    with pytest.raises(ServiceError) as error:
        written(tmp_path)
    assert "sqlengine[jwt]" in str(error.value.hint)


def test_a_server_with_jwts(tmp_path: Path) -> None:
    written(tmp_path)
    with running(tmp_path / "data", access=tmp_path / "access.toml") as (service, _):
        url = f"http://127.0.0.1:{service.port}"
        assert Client(url, token()).get("/api/v1/jobs")["jobs"] == []
        Client(url, token(groups=["platform"])).post("/api/v1/topics", {"name": "x"})
        for given, status in ((token(), 403), (token(OTHER), 401)):
            with pytest.raises(Refused) as error:
                Client(url, given).delete("/api/v1/topics/x")
            assert error.value.status == status
