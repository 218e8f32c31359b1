"""The private store of passwords that were written plainly: texts have marks in their place.

Each value is a file of DATA/secrets, which only this user may read, under the name that its mark
has: a keyed hash, so that equal texts stay equal, and nobody can guess by it. A value is used for
the places that it was given for, and no others: who may write SQL, and does not know a password,
cannot have it sent to another host."""

from __future__ import annotations

import hmac
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from parser.errors import ServiceError
from sqlengine.system.disk import MACHINE, make_folders, write_file

_KEY: Final = "key"
_FORMAT: Final = 1
_NAME: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True)
class _Entry:
    """The content of a file. `uses`: where the value may go."""

    value: str
    uses: tuple[str, ...] = ()

    def data(self) -> bytes:
        body = {"format": _FORMAT, "value": self.value, "uses": self.uses}
        return json.dumps(body).encode()


class SealedValues:
    """The values of one data folder. Any thread; several processes may read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.RLock()
        self._held: Counter[str] = Counter()

    def __reduce__(self) -> tuple[type[SealedValues], tuple[Path]]:
        """Other processes read the same folder."""
        return SealedValues, (self._folder,)

    def name_of(self, value: str) -> str:
        """Returns the name that a value has here, kept or not: 32 hexadecimal digits."""
        return hmac.new(self._key(), value.encode("utf-8", "surrogatepass"), sha256).hexdigest()[
            :32
        ]

    def keep(self, value: str) -> str:
        """Keeps a value until it is released and dropped; returns its name. ServiceError where it
        cannot be written."""
        with self._lock:
            name = self.name_of(value)
            if self._read(name) is None:
                self._write(name, _Entry(value).data())
            self._held[name] += 1
            return name

    def keep_once(self, value: str) -> str:
        """Keeps a value under a name of its own, which nobody can guess."""
        name = os.urandom(16).hex()
        self._write(name, _Entry(value).data())
        return name

    def drop_older(self, than_s: float) -> None:
        """Removes values that were kept before so many seconds."""
        for name in self.names():
            with suppress(OSError):
                if time.time() - (self._folder / name).stat().st_mtime > than_s:
                    (self._folder / name).unlink()

    def release(self, names: Collection[str]) -> None:
        """Says that a change is over for which values were kept."""
        with self._lock:
            self._held.subtract(names)

    def get(self, name: str) -> tuple[str, tuple[str, ...]] | None:
        """Returns a value and where it may go; None where it is not known."""
        entry = self._read(name)
        return None if entry is None else (entry.value, entry.uses)

    def admit(self, name: str, use: str) -> None:
        """Notes that a value may go to a place: who wrote that place knew the value."""
        with self._lock:
            entry = self._read(name)
            if entry is not None and use not in entry.uses:
                self._write(name, _Entry(entry.value, (*entry.uses, use)).data())

    def drop(self, names: Collection[str]) -> None:
        """Removes values that no text needs, unless another change has kept them."""
        with self._lock:
            for name in names:
                if self._held[name] <= 0:
                    with suppress(OSError):
                        (self._folder / name).unlink(missing_ok=True)

    def names(self) -> set[str]:
        """Returns the names of all values."""
        with suppress(OSError):
            return set(filter(_NAME.fullmatch, os.listdir(self._folder)))
        return set()

    def _read(self, name: str) -> _Entry | None:
        if not _NAME.fullmatch(name):
            return None
        try:
            body = json.loads((self._folder / name).read_bytes())
            return _Entry(str(body["value"]), tuple(map(str, body["uses"])))
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def _key(self) -> bytes:
        with self._lock:
            try:
                return (self._folder / _KEY).read_bytes()
            except FileNotFoundError:
                self._write(_KEY, os.urandom(32))
                return (self._folder / _KEY).read_bytes()

    def _write(self, name: str, data: bytes) -> None:
        """Writes a file, at once or not at all."""
        unfinished = self._folder / f".{name}.new"
        try:
            make_folders(MACHINE, self._folder, lasting=False, mode=0o700)
            write_file(MACHINE, unfinished, data, mode=0o600)
            MACHINE.rename(unfinished, self._folder / name)
            MACHINE.sync_folder(self._folder)  # texts that have its mark may be on disk first
        except OSError as error:
            raise ServiceError(
                f"a secret cannot be kept in '{self._folder}'", detail=error.strerror
            ) from None
