"""Secrets of tables: `${secret:NAME}` in an option stands for a value that no text of a job holds.

It is looked up each time that a table is opened, and nobody but the connector sees it: texts of
jobs, what lists and explains them, topics and savepoints have the reference."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from parser.errors import PlanError, ServiceError

_REFERENCE: Final = re.compile(r"\$\{secret:([^}]*)\}", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", re.ASCII)
_VARIABLE: Final = "SQLENGINE_SECRET_"
_MOST: Final = 1 << 20  # bytes of a file
# These say which table it is, for people and for what is kept about it.
_PLACES: Final = ("connector", "format", "path", "topic", "url", "table-name")


def secret_names(options: Mapping[str, str]) -> set[str]:
    """Returns the names of the secrets to which options refer."""
    return {name for text in options.values() for name in _REFERENCE.findall(text)}


@dataclass(frozen=True)
class Secrets:
    """The source of secrets: variables SQLENGINE_SECRET_NAME, and before them `source`, a file of
    lines NAME=VALUE or a folder with a file for each name."""

    source: Path | None = None

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

    def fill(self, options: Mapping[str, str], table: str) -> tuple[dict[str, str], list[str]]:
        """Returns the options of a table with the values of its secrets, and these values.

        PlanError for a secret that is not there, or stands where none may."""
        filled, values = dict(options), list[str]()
        for option, text in options.items():
            for name in _REFERENCE.findall(text):
                where = f"option '{option}' of table '{table}'"
                if option in _PLACES:
                    raise PlanError(f"{where} says where the table is, and takes no secret")
                value = self._value(name, where)
                values.append(value)
                filled[option] = filled[option].replace(f"${{secret:{name}}}", value)
        return filled, values

    def _value(self, name: str, where: str) -> str:
        if not _NAME.fullmatch(name):
            raise PlanError(
                f"'{name}' is no name of a secret, in {where}",
                hint="letters, digits and _.- make a name",
            )
        value = self._given().get(name) if self._is_file else self._file(name)
        if value is None:
            value = os.environ.get(_VARIABLE + name)
        if value is None:
            raise PlanError(
                f"secret '{name}' is not there, for {where}",
                hint=f"set {_VARIABLE}{name}, or name a file or folder that has it with --secrets",
            )
        return value

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


def masked(text: str, values: list[str]) -> str:
    """Returns a text in which no secret can be read."""
    for value in values:
        if value:
            text = text.replace(value, "******")
    return text
