"""The access file: principals, and how they are known, in TOML. See docs/security.md."""

from __future__ import annotations

import pwd
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from parser.errors import ServiceError
from sqlengine.access.patterns import is_pattern
from sqlengine.access.principals import (
    EVERYTHING,
    HARMLESS,
    Budget,
    Exceeded,
    Grant,
    Patterns,
    Principal,
    Quota,
    Role,
)
from sqlengine.access.tokens import is_hash
from sqlengine.system.sizes import size

T = TypeVar("T")
Table = Mapping[str, object]

_MOST_NAME: Final = 100
_LEEWAY_S: Final = 60


class BadAccessFile(ServiceError):
    """The access file is not what it should be."""


@dataclass(frozen=True)
class JwtSettings:
    """The tokens of an identity provider that are taken, and what they stand for.

    `keys`: the JWKS file; `name_claim` names the principal, `roles_claim` has texts that `roles`
    maps to principals of the file, whose grants it gets; `leeway_s`: by how much clocks may
    differ."""

    keys: str
    issuer: str
    audience: str
    roles: Mapping[str, str]
    name_claim: str = "sub"
    roles_claim: str = "groups"
    leeway_s: int = _LEEWAY_S


@dataclass(frozen=True)
class AuditSettings:
    """`file_bytes`: when a file of the audit log is complete; `files`: how many are kept."""

    file_bytes: int = 64 << 20
    files: int = 16


@dataclass(frozen=True)
class AccessRules:
    """The content of an access file: principals by name, by the hashes of their tokens, the ids of
    their users on this machine, and names in their certificates."""

    principals: Mapping[str, Principal] = field(default_factory=dict)
    tokens: Mapping[str, Principal] = field(default_factory=dict)
    users: Mapping[int, Principal] = field(default_factory=dict)
    certificates: Mapping[str, Principal] = field(default_factory=dict)
    jwt: JwtSettings | None = None
    audit: AuditSettings = field(default_factory=AuditSettings)


def read_rules(text: str) -> AccessRules:
    """Returns what an access file says. BadAccessFile names what is wrong, and where."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadAccessFile("the access file is no TOML", detail=str(error)) from None
    top = _Section("", content)
    entries = top.table("principals")
    if not entries.content:
        raise BadAccessFile("the access file has no principal", hint="write [principals.NAME]")
    known = [_Known.read(_Section(f"principals.{n}", _table(e, n)), n) for n, e in entries.all()]
    principals = {k.principal.name: k.principal for k in known}
    jwt = _jwt(top.table("jwt"), principals) if "jwt" in content else None
    audit = _audit(top.table("audit"))
    top.use("jwt")
    top.done()
    return AccessRules(
        principals,
        _by(known, lambda k: k.tokens, "token"),
        _by(known, lambda k: k.users, "user"),
        _by(known, lambda k: k.certificates, "certificate"),
        jwt,
        audit,
    )


def _by(
    known: list[_Known], keys: Callable[[_Known], tuple[T, ...]], what: str
) -> dict[T, Principal]:
    """Returns principals by something that only one of them has."""
    found: dict[T, Principal] = {}
    for one in known:
        for key in keys(one):
            if found.setdefault(key, one.principal) is not one.principal:
                raise BadAccessFile(
                    f"principals '{found[key].name}' and '{one.principal.name}' have the same"
                    f" {what}"
                )
    return found


@dataclass(frozen=True)
class _Known:
    """A principal of the file, and how it is known."""

    principal: Principal
    tokens: tuple[str, ...]
    users: tuple[int, ...]
    certificates: tuple[str, ...]

    @staticmethod
    def read(section: _Section, name: str) -> _Known:
        if not 0 < len(name) <= _MOST_NAME or not name.isprintable():
            raise BadAccessFile(f"'{name[:_MOST_NAME]}' is no name of a principal")
        if name.startswith("jwt:"):
            raise BadAccessFile(f"the name '{name}' is one of those that JWTs give")
        tokens = section.texts("tokens") + section.texts("token")
        bad = next((t for t in tokens if not is_hash(t)), None)
        if bad is not None:
            raise BadAccessFile(
                f"{section.name} has a token that is no hash",
                hint="'sql access hash' makes a token, and the hash that belongs here",
            )
        users = tuple(_user(u, section.name) for u in section.items("users"))
        certificates = section.texts("certificates")
        quota, budget = _quota(section.table("quota")), _budget(section.table("budget"))
        principal = Principal(name, (_grant(section),), quota, budget)
        section.done()
        return _Known(principal, tokens, users, certificates)


def _grant(section: _Section) -> Grant:
    roles = section.texts("roles")
    if not roles:
        raise BadAccessFile(
            f"{section.name} has no roles", hint=f"roles: {', '.join(Role)}, as roles = ['read']"
        )
    unknown = [r for r in roles if r not in list(Role)]
    if unknown:
        raise BadAccessFile(
            f"{section.name} has the unknown role '{unknown[0][:60]}'",
            hint=f"roles: {', '.join(Role)}",
        )
    reads, writes = _topics(section)
    return Grant(
        frozenset(map(Role, roles)),
        section.patterns("jobs", EVERYTHING),
        reads,
        writes,
        section.patterns("connectors", HARMLESS),
        section.patterns("functions", EVERYTHING),
        section.patterns("secrets", ()),
    )


def _topics(section: _Section) -> tuple[Patterns, Patterns]:
    """Returns the patterns of topics that are read and written: the same, or by role."""
    if not isinstance(section.content.get("topics"), Mapping):
        both = section.patterns("topics", EVERYTHING)
        return both, both
    by_role = section.table("topics")
    found = by_role.patterns("read", ()), by_role.patterns("write", ())
    by_role.done()
    return found


def _quota(section: _Section) -> Quota:
    jobs = section.content.get("jobs")
    if jobs is not None and (not isinstance(jobs, int) or isinstance(jobs, bool) or jobs < 0):
        raise BadAccessFile(f"{section.name}.jobs is a number of jobs")
    section.use("jobs")
    found = Quota(jobs, section.size("state"), section.size("append-rate"))
    section.done()
    return found


def _budget(section: _Section) -> Budget:
    given = section.content.get("cpu-us-per-event")
    counts = isinstance(given, int | float) and not isinstance(given, bool)
    cpu_us = float(str(given)) if counts else None
    if given is not None and (cpu_us is None or cpu_us <= 0):
        raise BadAccessFile(f"{section.name}.cpu-us-per-event is a number of microseconds")
    section.use("cpu-us-per-event")
    exceeded = section.text("exceeded", Exceeded.WARN.value)
    if exceeded not in list(Exceeded):
        raise BadAccessFile(f"{section.name}.exceeded is one of {', '.join(Exceeded)}")
    found = Budget(cpu_us, section.size("state"), Exceeded(exceeded))
    section.done()
    return found


def _jwt(section: _Section, principals: Mapping[str, Principal]) -> JwtSettings:
    roles = {}
    mapped = section.table("roles")
    for value, name in mapped.all():
        if not isinstance(name, str) or name not in principals:
            raise BadAccessFile(
                f"jwt.roles.{value} names no principal of the file",
                hint='write "value of the claim" = "name of a principal"',
            )
        roles[value] = name
    leeway = section.content.get("leeway", _LEEWAY_S)
    if not isinstance(leeway, int) or not 0 <= leeway <= 600:
        raise BadAccessFile("jwt.leeway is a number of seconds, 600 at most")
    section.use("leeway")
    found = JwtSettings(
        section.text("keys"),
        section.text("issuer"),
        section.text("audience"),
        roles,
        section.text("name-claim", "sub"),
        section.text("roles-claim", "groups"),
        leeway,
    )
    section.done()
    return found


def _audit(section: _Section) -> AuditSettings:
    standard, files = AuditSettings(), section.content.get("files", AuditSettings.files)
    if not isinstance(files, int) or files < 2:
        raise BadAccessFile("audit.files is a number of files, 2 at least")
    section.use("files")
    found = AuditSettings(section.size("file-size") or standard.file_bytes, files)
    section.done()
    return found


def _user(user: object, where: str) -> int:
    """Returns the id of a user of this machine, given by number or name."""
    if isinstance(user, int) and not isinstance(user, bool) and user >= 0:
        return user
    try:
        return pwd.getpwnam(str(user)).pw_uid
    except KeyError:
        raise BadAccessFile(
            f"{where} names the user '{str(user)[:60]}', whom this machine does not know"
        ) from None


def _table(value: object, name: str) -> Table:
    if not isinstance(value, Mapping):
        raise BadAccessFile(f"'{name[:60]}' is no section of the access file")
    return value


class _Section:
    """A section of the file; `done` refuses what nobody has read: a misspelled key must not give
    more, or less, than was meant."""

    def __init__(self, name: str, content: Table) -> None:
        self.name = name
        self.content = content
        self._used: set[str] = set()

    def use(self, key: str) -> None:
        self._used.add(key)

    def all(self) -> list[tuple[str, object]]:
        return list(self.content.items())

    def table(self, key: str) -> _Section:
        self.use(key)
        name = f"{self.name}.{key}" if self.name else key
        return _Section(name, _table(self.content.get(key, {}), name))

    def items(self, key: str) -> list[object]:
        self.use(key)
        value = self.content.get(key, [])
        return list(value) if isinstance(value, list) else [value]

    def texts(self, key: str) -> tuple[str, ...]:
        found = self.items(key)
        if not all(isinstance(text, str) and text for text in found):
            raise BadAccessFile(f"{self.name}.{key} is a list of texts")
        return tuple(map(str, found))

    def text(self, key: str, default: str | None = None) -> str:
        self.use(key)
        value = self.content.get(key, default)
        if not isinstance(value, str) or not value:
            raise BadAccessFile(f"{self.name} needs the text '{key}'")
        return value

    def patterns(self, key: str, default: Patterns) -> Patterns:
        found = self.texts(key)
        if key not in self.content:
            return default
        bad = next((p for p in found if not is_pattern(p)), None)
        if bad is not None:
            raise BadAccessFile(
                f"{self.name}.{key} has '{bad[:60]}', which is no pattern",
                hint="a pattern is a name in which * stands for any characters",
            )
        return found

    def size(self, key: str) -> int | None:
        self.use(key)
        value = self.content.get(key)
        try:
            return None if value is None else size(str(value))
        except ValueError as error:
            raise BadAccessFile(
                f"{self.name}.{key} is a size such as '200MB'", detail=str(error)
            ) from None

    def done(self) -> None:
        unknown = sorted(self.content.keys() - self._used)
        if unknown:
            raise BadAccessFile(
                f"the access file has the unknown key '{unknown[0][:60]}'"
                + (f" in {self.name}" if self.name else ""),
                detail=f"known there: {', '.join(sorted(self._used))}",
            )
