"""The principals of files in the watched folder: those of their owners."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from sqlengine.access.audit.log import Event
from sqlengine.access.identity import Access
from sqlengine.access.policy import Action, Forbidden, require
from sqlengine.access.principals import NOBODY, Principal
from sqlengine.control.scripts import SourceFile
from sqlengine.engine.requests import Outcome

# Where changes of files come from, in the audit log.
PEER: Final = "watched folder"


class FolderOwners:
    """Knows the owner of each file that was submitted. One thread at a time."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._users: dict[str, int] = {}

    def take(self, files: Mapping[str, SourceFile]) -> dict[str, Outcome]:
        """Notes the owners of files by the names of their jobs. Returns the refusals of those that
        may not submit these jobs."""
        self._users |= {name: file.owner for name, file in files.items()}
        refused = {}
        for name, file in files.items():
            try:
                require(self._principal(name, file.owner), Action.CHANGE_JOB, name)
            except Forbidden as error:
                refused[name] = Outcome(name, "refused", error=error)
        return refused

    def of(self, names: Collection[str]) -> dict[str, Principal]:
        """Returns the principals of files, as the access file has them now."""
        return {n: self._principal(n, self._users[n]) for n in names if n in self._users}

    def events(self, outcomes: Iterable[Outcome]) -> list[Event]:
        """Returns what the audit log has of a change of files."""
        owners = {n: self._principal(n, user) for n, user in self._users.items()}
        return [
            Event(
                owners[o.name].name if o.name in owners and o.status != "removed" else "",
                PEER,
                f"file {o.status}",
                o.name,
                o.version,
                "refused" if o.error is not None else "done",
                "" if o.error is None else str(o.error),
            )
            for o in outcomes
            if o.status != "unchanged"
        ]

    def _principal(self, name: str, user: int) -> Principal:
        known = self._access.owner(user)
        return known or Principal(f"user {user}", NOBODY.grants)
