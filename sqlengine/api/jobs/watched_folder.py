"""The watched folder, as the routes of jobs know it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from parser.errors import SqlError


class WatchedFolder(Protocol):
    """The watched folder, as far as people are told about it."""

    def problems(self) -> Mapping[Path, SqlError]:
        """Returns the files that were not taken, with the reason."""

    def tried_again(self) -> Collection[Path]:
        """Returns those of them that are tried again by themselves."""

    def overridden(self) -> Sequence[FileState]:
        """Returns the files whose jobs another way has changed since."""


class FileState(Protocol):
    """The state of a file of the watched folder."""

    def as_json(self) -> dict[str, object]: ...


class NoFolder:
    """The folder of a server that watches none."""

    def problems(self) -> Mapping[Path, SqlError]:
        return {}

    def tried_again(self) -> Collection[Path]:
        return ()

    def overridden(self) -> Sequence[FileState]:
        return ()


NO_FOLDER = NoFolder()
