"""Secrets of tables: `${secret:NAME}` in an option stands for a value that no text of a job holds.

It is looked up each time that a table is opened, and nobody but the connector sees it: texts of
jobs, what lists and explains them, topics and savepoints have the reference. `${sealed:…}` is the
mark of a password that was written plainly (`sqlengine.system.sealed_values`)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parser.errors import PlanError, ServiceError
from sqlengine.system.hidden import forms, hand_out
from sqlengine.system.sealed_values import SealedValues
from sqlengine.system.secret_command import SecretCommand

# A name ends before the next reference: a text of many that are not closed is read once.
REFERENCE: Final = re.compile(r"\$\{(secret|sealed):((?:[^}$]|\$(?!\{))*+)\}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_VARIABLE: Final = "SQLENGINE_SECRET_"
_MOST: Final = 1 << 20  # bytes of a file
_MOST_SECRETS: Final = 100  # of a table
# These say which table it is, for people and for what is kept about it.
_PLACES: Final = ("connector", "format", "path", "topic", "url", "table-name")


def secret_names(options: Mapping[str, str]) -> set[str]:
    """Returns the names of the secrets to which options refer."""
    found = (pair for text in options.values() for pair in REFERENCE.findall(text))
    return {name for kind, name in found if kind == "secret"}


def takes_secret(option: str) -> bool:
    """True for an option in which `${secret:NAME}` may stand: not for one that says which table it
    is."""
    return option not in _PLACES


@dataclass(frozen=True)
class Secrets:
    """The sources of secrets, in their order: `source`, a file of lines NAME=VALUE or a folder with
    a file for each name; a command; variables SQLENGINE_SECRET_NAME. `sealed`: the passwords that
    were written plainly into texts of jobs."""

    source: Path | None = None
    command: SecretCommand | None = None
    sealed: SealedValues | None = None

    def check(self) -> None:
        """Raises ServiceError for a source that is missing, or a file that others may read."""
        if self.source is None or self.source.is_dir():
            return
        try:
            mode = self.source.stat().st_mode
        except OSError as error:
            raise ServiceError(
                f"secrets '{self.source}' cannot be read", detail=error.strerror
            ) from None
        if stat.S_ISREG(mode) and mode & 0o077:
            raise ServiceError(
                f"secrets '{self.source}' may be read or written by others",
                hint=f"chmod 600 {self.source}",
            )

    def fill(
        self, options: Mapping[str, str], table: str, use: Callable[[str], str] = str
    ) -> tuple[dict[str, str], list[str]]:
        """Returns the options of a table with the values of its secrets, and all `forms` of these.
        `use` says of an option where its value would go.

        PlanError for a secret that is not there, or stands where none may, and for too many."""
        filled, values = dict(options), list[str]()
        references = {found for text in options.values() for found in REFERENCE.findall(text)}
        if len(references) > _MOST_SECRETS:
            raise PlanError(
                f"table '{table}' has {len(references):,} secrets,"
                f" at most {_MOST_SECRETS} are taken",
                hint="put those that belong together into one",
            )
        for option, text in options.items():
            for found in REFERENCE.finditer(text):
                where = f"option '{option}' of table '{table}'"
                if found[1] == "sealed":
                    value = self._sealed(found[2], use(option), where)
                elif not takes_secret(option):
                    raise PlanError(f"{where} says where the table is, and takes no secret")
                else:
                    value = self._value(found[2], where)
                hand_out(value)
                values += forms(value)
                filled[option] = filled[option].replace(found[0], value)
        return filled, values

    def _sealed(self, name: str, use: str, where: str) -> str:
        """Returns a password that was written plainly. PlanError where it is not known here, or was
        given for another place."""
        kept = None if self.sealed is None or not _NAME.fullmatch(name) else self.sealed.get(name)
        hint = "write it again, or refer to it: '${secret:NAME}'"
        if kept is None:
            detail = "it is kept in the data folder to which it was written"
            raise PlanError(f"the secret in {where} is not known here", detail=detail, hint=hint)
        value, uses = kept
        if use not in uses:
            detail = "options that say where the table is have changed, and the password has not"
            raise PlanError(
                f"the secret in {where} was given for another place", detail=detail, hint=hint
            )
        return value

    def _value(self, name: str, where: str) -> str:
        if not _NAME.fullmatch(name):
            raise PlanError(
                f"'{name}' is no name of a secret, in {where}",
                hint="letters, digits and _.- make a name",
            )
        value = self._given().get(name) if self._is_file else self._file(name)
        if value is None and self.command is not None:
            value = self.command.get(name)
        if value is None:
            value = os.environ.get(_VARIABLE + name)
        if value is None:
            raise self._missing(name, where)
        return value

    def _missing(self, name: str, where: str) -> PlanError:
        return PlanError(
            f"secret '{name}' is not there, for {where}",
            detail=None if self.command is None else "the command for secrets fails for it",
            hint=f"set {_VARIABLE}{name}, or name a file or folder that has it with --secrets",
        )

    @property
    def _is_file(self) -> bool:
        return self.source is not None and not self.source.is_dir()

    def _given(self) -> dict[str, str]:
        """Reads the file. ServiceError as `check`."""
        assert self.source is not None
        self.check()
        lines = self.source.read_text(encoding="utf-8").splitlines()
        pairs = (line.partition("=") for line in lines if line.strip() and line[0] != "#")
        return {name.strip(): value.strip() for name, _, value in pairs}

    def _file(self, name: str) -> str | None:
        """Reads the file of a secret, without the line break behind it, as Docker and Kubernetes
        mount them."""
        path = None if self.source is None else self.source / name
        if path is None or not path.is_file():
            return None
        with path.open(encoding="utf-8") as file:
            return file.read(_MOST).removesuffix("\n")
