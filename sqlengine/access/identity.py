"""Finds out who asks: by a token, a user of this machine, or a certificate."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from parser.errors import ServiceError
from sqlengine.access.access_file import AccessRules, BadAccessFile, read_rules
from sqlengine.access.policy import Unauthorised
from sqlengine.access.principals import TRUSTED, Principal
from sqlengine.access.tokens import hash_of, holder
from sqlengine.system.stamps import stamp_of

if TYPE_CHECKING:
    from sqlengine.access.jwt_tokens import JwtKeys

log = logging.getLogger("sqlengine")

# Between two looks at the file: a token that is taken out of it is good for so long.
_LOOK_S: Final = 0.5
_BEARER: Final = "Bearer "
_HINT: Final = (
    "set SQLENGINE_TOKEN, or --token-file, to a token of the server's;"
    " over HTTP send 'Authorization: Bearer TOKEN'"
)


@dataclass(frozen=True)
class Caller:
    """The other end of a connection. `user`: its id, where it came over the local socket;
    `certificate`: the names in a client certificate that was verified; `local`: it has been seen to
    that this machine alone, and no page in a browser, can have sent the request."""

    authorization: str = ""
    user: int | None = None
    certificate: tuple[str, ...] = ()
    local: bool = False


class Access(Protocol):
    """Knows the principals of one server. Any thread."""

    @property
    def told_apart(self) -> bool:
        """True if there are principals: with a single token, or none, all are one."""

    @property
    def problem(self) -> str | None:
        """Says what is wrong with the access file, which counts as it was before."""

    def identify(self, caller: Caller) -> Principal:
        """Returns who asks. Raises Unauthorised for nobody that is known."""

    def has_state_quotas(self) -> bool:
        """Returns True if the state of some principal's jobs is bounded."""

    def named(self, name: str) -> Principal | None:
        """Returns the principal of a job's version, by its name; None for one that is not known any
        more."""

    def owner(self, user: int) -> Principal | None:
        """Returns the principal of a file of the watched folder, by the id of its owner; None for
        one that may submit nothing."""


class OneToken:
    """The access of a server without an access file: whoever has the token may do everything, or
    without one whoever is on this machine."""

    told_apart = False
    problem = None

    def __init__(self, token: str | None = None) -> None:
        self._hash = None if token is None else hash_of(token)

    def identify(self, caller: Caller) -> Principal:
        """See `Access`. Which requests are this machine's own is for the HTTP server to judge."""
        if self._hash is None:
            return TRUSTED
        return _by_token(caller.authorization, {self._hash: TRUSTED})

    def has_state_quotas(self) -> bool:
        return False

    def named(self, name: str) -> Principal | None:
        return TRUSTED

    def owner(self, user: int) -> Principal | None:
        return TRUSTED


OPEN: Final = OneToken()


class AccessFile:
    """The access by a file, which is read again when it has changed. A file with a fault changes
    nothing but `problem`. `changed` is told of each reading: None, or the fault."""

    told_apart = True

    def __init__(self, path: Path) -> None:
        """Raises BadAccessFile for a file that cannot be used: nothing may begin with it."""
        self._path = path
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._keys: JwtKeys | None = None
        self._rules = AccessRules()
        self._stamp: tuple[object, ...] = ()
        self._read()
        self.changed: Callable[[ServiceError | None], None] = lambda fault: None
        self._problem: str | None = None

    @property
    def problem(self) -> str | None:
        self._refresh()
        return self._problem

    @property
    def rules(self) -> AccessRules:
        """The content of the file now."""
        self._refresh()
        return self._rules

    def identify(self, caller: Caller) -> Principal:
        """See `Access`: a token counts before the user of a local socket, and that before a
        certificate."""
        rules = self.rules
        if caller.authorization:
            return self._holder(caller.authorization, rules)
        if caller.user is not None:
            return self._local_user(caller.user)
        for name in caller.certificate:
            if name in rules.certificates:
                return rules.certificates[name]
        raise _unknown("the request has no token")

    def _holder(self, authorization: str, rules: AccessRules) -> Principal:
        token, keys = _token(authorization), self._keys
        if keys is not None and token.count(".") == 2:
            return keys.principal(token, rules.principals)
        return _by_token(authorization, rules.tokens)

    def _local_user(self, user: int) -> Principal:
        found = self.rules.users.get(user) or (TRUSTED if user in own_users() else None)
        if found is None:
            raise _unknown(f"user {user} of this machine is no principal")
        return found

    def has_state_quotas(self) -> bool:
        return any(p.quota.state is not None for p in self.rules.principals.values())

    def named(self, name: str) -> Principal | None:
        return TRUSTED if not name else self.rules.principals.get(name)

    def owner(self, user: int) -> Principal | None:
        """See `Access`. Where the file names no users, whoever may write to the folder may submit
        everything; where it does, the server's own user and root still may."""
        users = self.rules.users
        if not users:
            return TRUSTED
        return users.get(user) or (TRUSTED if user in own_users() else None)

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_S or not self._lock.acquire(blocking=False):
            return
        try:
            self._looked = now
            stamps = self._stamps()
            if stamps != self._stamp:
                self._stamp = stamps
                self._reload()
        finally:
            self._lock.release()

    def _reload(self) -> None:
        try:
            self._read()
        except ServiceError as error:
            self._problem = f"{error}; what it said before counts"
            log.error("access file '%s': %s", self._path, self._problem)
            self.changed(error)
        else:
            self._problem = None
            log.info("access file '%s' was read again", self._path)
            self.changed(None)

    def _read(self) -> None:
        """Reads the file, and the keys file that it names: both count, or neither."""
        stamp, keys, keys_stamp = stamp_of(self._path), None, None
        rules = read_access_file(self._path)
        if rules.jwt is not None:
            from sqlengine.access.jwt_tokens import JwtKeys

            keys_stamp, keys = stamp_of(Path(rules.jwt.keys)), JwtKeys(rules.jwt)
        self._rules, self._keys, self._stamp = rules, keys, (stamp, keys_stamp)

    def _stamps(self) -> tuple[object, ...]:
        keys = None if self._rules.jwt is None else stamp_of(Path(self._rules.jwt.keys))
        return stamp_of(self._path), keys


def own_users() -> tuple[int, ...]:
    """Users who can do everything to the server as it is: its own, and root."""
    return os.geteuid(), 0


def _by_token(authorization: str, holders: Mapping[str, Principal]) -> Principal:
    token = _token(authorization)
    if not token:
        raise _unknown("the request has no token")
    found = holder(token, holders)
    if found is None:
        raise _unknown("the token is not the server's")
    return found


def _token(authorization: str) -> str:
    return authorization.removeprefix(_BEARER).strip()


def _unknown(why: str) -> Unauthorised:
    return Unauthorised("not authorised", detail=why, hint=_HINT)


def read_access_file(path: Path) -> AccessRules:
    """Returns what the file of that name says; `jwt.keys` counts from its folder. BadAccessFile
    where it cannot be used."""
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadAccessFile(f"the access file '{path}' cannot be read", detail=str(error)) from None
    if not stat.S_ISREG(mode) or mode & 0o022:
        raise BadAccessFile(
            f"the access file '{path}' may be written by others",
            detail="whoever writes it may do everything",
            hint=f"chmod go-w {path}",
        )
    rules = read_rules(text)
    if rules.jwt is None:
        return rules
    return replace(rules, jwt=replace(rules.jwt, keys=str(path.parent / rules.jwt.keys)))
