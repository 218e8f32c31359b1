"""The access file: what it may say, what it means, and what becomes of changes."""

from __future__ import annotations

import hmac
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.errors import ServiceError
from sqlengine.access.access_file import BadAccessFile, read_rules
from sqlengine.access.identity import AccessFile, Caller
from sqlengine.access.patterns import is_pattern, matches
from sqlengine.access.policy import Action, Unauthorised, decide
from sqlengine.access.principals import Role
from sqlengine.access.tokens import hash_of, holder
from sqlengine.cli import main
from sqlengine.config import Config
from sqlengine.service import Service
from tests.access.conftest import PRINCIPALS, TOKENS, Guarded, access_text
from tests.access.test_routes import ask
from tests.support import ROOT, eventually

HASH = hash_of("t" * 40)
# principal, action, name, whether it is allowed
POLICY = """
root    administer this server  -          yes
root    read topic              _jobs      yes
root    use secret              ANY        yes
alice   administer this server  -          no
alice   change job              a.x        yes
alice   change job              a.         yes
alice   change job              b.x        no
alice   change job              a          no
alice   change job              A.x        no
alice   change job              xa.x       no
alice   see job                 a.x        yes
alice   read topic              shared     yes
alice   read topic              shared2    no
alice   write topic             shared     no
alice   write topic             a.out      yes
alice   see topic               shared     yes
alice   read topic              _jobs      no
alice   write topic             _commands  no
alice   use connector           topic      yes
alice   use connector           jdbc       no
alice   use function            words.f    yes
alice   use function            other.f    no
alice   use secret              ANY        no
bob     use function            words.f    no
reader  read topic              a.in       yes
reader  write topic             a.in       no
reader  see job                 a.x        yes
reader  change job              a.x        no
reader  ask for tables and queries -       yes
sender  write topic             shared     yes
sender  read topic              shared     no
sender  see topic               shared     yes
sender  see job                 a.x        no
sender  ask for tables and queries -       no
monitor see job                 *          yes
alice   see job                 *          no
monitor read topic              a.in       no
"""


@pytest.mark.parametrize("line", POLICY.strip().splitlines())
def test_policy(line: str) -> None:
    who, *words, name, expected = line.split()
    principal = read_rules(access_text()).principals[who]
    decision = decide(principal, Action(" ".join(words)), None if name == "-" else name)
    assert decision.allowed == (expected == "yes"), decision.missing
    assert bool(decision.missing) != decision.allowed


@pytest.mark.parametrize(
    ("text", "known"),
    [
        (
            '[principals.a]\nroles = ["read"]\nfunction = []',
            "budget, certificates, connectors, functions, jobs, quota, roles, secrets, token, tokens, topics, users",
        ),
        ('[principals.a]\nroles = ["read"]\ntopics = { raed = [] }', "read, write"),
        ('[principals.a]\nroles = ["read"]\n[jwts]', "audit, jwt, principals"),
    ],
)
def test_a_misspelt_key_is_told_with_all_that_are_known(text: str, known: str) -> None:
    with pytest.raises(BadAccessFile, match="unknown key") as error:
        read_rules(text)
    assert error.value.detail == f"known there: {known}"


def test_the_example() -> None:
    """The file of the documentation is a whole one."""
    text = (ROOT / "examples" / "deployment" / "access.toml").read_text()
    rules = read_rules(text)
    assert {r for p in rules.principals.values() for g in p.grants for r in g.roles} == set(Role)
    assert rules.jwt is not None


def test_topics_of_the_system_are_no_patterns_matter() -> None:
    text = f'[principals.p]\ntoken = "{HASH}"\nroles = ["read", "write"]\ntopics = ["*", "_*", "_jobs"]'
    principal = read_rules(text).principals["p"]
    assert decide(principal, Action.READ_TOPIC, "jobs").allowed
    assert not decide(principal, Action.READ_TOPIC, "_jobs").allowed
    assert not decide(principal, Action.WRITE_TOPIC, "_commands").allowed


NAMES = st.text(st.sampled_from("ab.*"), max_size=12)


@given(NAMES, NAMES)
def test_patterns_match_as_defined(pattern: str, name: str) -> None:
    """Against the definition: a star stands for any part of the name."""

    def by_definition(p: str, n: str) -> bool:
        if not p:
            return not n
        if p[0] == "*":
            return any(by_definition(p[1:], n[i:]) for i in range(len(n) + 1))
        return n[:1] == p[0] and by_definition(p[1:], n[1:])

    assert matches(pattern, name) == by_definition(pattern, name)


def test_a_pattern_takes_no_long_time() -> None:
    assert not matches("*a" * 90 + "*b", "a" * 100_000)


@pytest.mark.parametrize("bad", ["", "a b", "[ab]*", "a?", "^a", "a\n", "ä*", "a" * 201, "(a|b)"])
def test_what_is_no_pattern(bad: str) -> None:
    assert not is_pattern(bad)


BAD = {
    "no principal": "",
    "no TOML": "[principals.x",
    "no roles": f'[principals.p]\ntoken = "{HASH}"',
    "unknown role 'king'": '[principals.p]\nroles = ["king"]',
    "unknown key 'job'": '[principals.p]\nroles = ["read"]\njob = ["a.*"]',
    "unknown key 'rate' in principals.p.quota": '[principals.p]\nroles = ["read"]\nquota = { rate = "1kb" }',
    "unknown key 'principal'": '[principals.p]\nroles = ["read"]\n[principal.q]\nroles = ["read"]',
    "a token that is no hash": '[principals.p]\nroles = ["read"]\ntoken = "secret"',
    "no pattern": '[principals.p]\nroles = ["read"]\njobs = ["a.[xy]"]',
    "the same token": f'[principals.p]\nroles = ["read"]\ntoken = "{HASH}"\n'
    f'[principals.q]\nroles = ["read"]\ntoken = "{HASH}"',
    "whom this machine does not know": '[principals.p]\nroles = ["read"]\nusers = ["no-such-user"]',
    "names no principal of the file": '[principals.p]\nroles = ["read"]\n[jwt]\nkeys = "k"\n'
    'issuer = "i"\naudience = "a"\nroles = { x = "q" }',
    "quota.state is a size": '[principals.p]\nroles = ["read"]\nquota = { state = "much" }',
    "quota.jobs is a number": '[principals.p]\nroles = ["read"]\nquota = { jobs = "3" }',
    "is a list of texts": '[principals.p]\nroles = ["read"]\ntopics = [3]',
}


@pytest.mark.parametrize("message", BAD)
def test_files_with_faults(message: str) -> None:
    with pytest.raises(BadAccessFile, match=message.replace("[", r"\[")):
        read_rules(BAD[message])


def test_a_server_does_not_begin_with_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "access.toml"
    file.write_text(BAD["no roles"])
    with pytest.raises(BadAccessFile):
        Service(Config(data=tmp_path / "data", port=0, access=file))
    file.write_text(access_text())
    file.chmod(0o666)
    with pytest.raises(BadAccessFile, match="may be written by others"):
        Service(Config(data=tmp_path / "data", port=0, access=file))
    file.chmod(0o600)
    with pytest.raises(ServiceError, match="a token or an access file, not both"):
        Service(Config(data=tmp_path / "data", port=0, access=file, token="x"))


def test_a_file_that_changes(guarded: Guarded) -> None:
    """A token that is taken out is nobody's within a second; a file with a fault changes nothing,
    and is told; a role that is given counts."""

    def status(who: str) -> int:
        return ask(guarded, who, "GET", "/api/v1/topics/shared/records")[0]

    def problem() -> object:
        return ask(guarded, "-", "GET", "/readyz")[1]["problem"]

    assert status("bob") == 200
    guarded.file.write_text(access_text(tokens={**TOKENS, "bob": "another" * 6}))
    eventually(lambda: status("bob") == 401)
    guarded.file.write_text("[principals")
    eventually(lambda: "the access file has a fault" in str(problem()))
    assert status("bob") == 401
    assert status("alice") == 200
    assert ask(guarded, "-", "GET", "/readyz")[0] == 200
    guarded.file.unlink()
    eventually(lambda: problem())
    assert status("alice") == 200
    given = PRINCIPALS.replace(
        '[principals.sender]\nroles = ["write"]', '[principals.sender]\nroles = ["read"]'
    )
    guarded.file.write_text(access_text(given))
    eventually(lambda: status("sender") == 200)
    eventually(lambda: problem() is None)
    guarded.file.write_text(access_text())
    eventually(lambda: status("sender") == 403)


def test_who_asks(tmp_path: Path) -> None:
    """A token counts before a user, and a wrong one is not made good by it."""
    file = tmp_path / "access.toml"
    users = '[principals.u]\nroles = ["read"]\nusers = [4711]\ncertificates = ["client.example"]\n'
    file.write_text(access_text() + "\n" + users)
    access = AccessFile(file)
    assert access.identify(Caller(user=4711)).name == "u"
    assert access.identify(Caller(certificate=("client.example",))).name == "u"
    assert access.identify(Caller(user=os.geteuid())).is_admin
    assert access.identify(Caller(f"Bearer {TOKENS['bob']}", user=4711)).name == "bob"
    for stranger in (
        Caller(),
        Caller(user=4712),
        Caller(certificate=("CLIENT.example",)),
        Caller("Bearer x", user=4711),
        Caller("Bearer x", certificate=("client.example",)),
    ):
        with pytest.raises(Unauthorised):
            access.identify(stranger)
    owners = [access.owner(user) for user in (4711, 4712)]
    assert [None if o is None else o.name for o in owners] == ["u", None]


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, by their hashes, whether there is such a token or not."""
    compared: list[tuple[str, str]] = []

    def compare(given: str, known: str) -> bool:
        compared.append((given, known))
        return given == known

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert holder("right", {hash_of("right"): 1}) == 1
    assert holder("wrong", {hash_of("right"): 1}) is None
    assert [len(g) == len(k) == len(HASH) for g, k in compared] == [True, True]


def test_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`sql access hash` makes a token that the hash belongs to; `check` shows a file."""

    def ran(*arguments: str) -> str:
        with pytest.raises(SystemExit) as end:
            main(["access", *arguments])
        out = capsys.readouterr()
        assert end.value.code == 0, out.err
        return out.out

    token, hashed = (line.split()[1] for line in ran("hash").splitlines())
    assert hashed.strip('"') == hash_of(token)
    own = tmp_path / "token"
    own.write_text(token)
    assert hashed in ran("hash", "--token-file", str(own))
    own.write_text("short")
    with pytest.raises(SystemExit) as end:
        main(["access", "hash", "--token-file", str(own)])
    assert end.value.code == 1
    file = tmp_path / "access.toml"
    file.write_text(access_text())
    shown = ran("check", str(file))
    assert "alice" in shown
    assert "read shared a.* later; write a.*" in shown
    more = '\n[jwt]\nkeys = "no.json"\nissuer = "i"\naudience = "a"\nroles = {}\n'
    file.write_text(access_text() + more)
    with pytest.raises(SystemExit) as end:
        main(["access", "check", str(file)])
    assert end.value.code == 1
    assert f"keys file '{tmp_path}/no.json' cannot be read" in capsys.readouterr().err
