"""Checkpoint stores in RocksDB folders."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from parser.errors import ServiceError
from sqlengine.state.store import BlobStore
from sqlengine.system.durability import Fsync

if TYPE_CHECKING:
    from rocksdict import Rdict


class RocksStore(BlobStore):
    """Keeps checkpoints in a RocksDB folder.

    With `fsync` 'none' they survive the death of the process, otherwise a power loss too.
    """

    def __init__(self, folder: Path, fsync: Fsync = "none") -> None:
        self._folder = folder
        self._sync = fsync != "none"
        self._db = _open(folder)
        self._sound = True
        try:
            super().__init__(str(folder))
        except ServiceError:
            self._db.close()
            raise

    def close(self) -> None:
        # After a failed write RocksDB raises its error once more when it is closed.
        with nullcontext() if self._sound else suppress(Exception):
            self._db.close()

    def _get(self, key: bytes) -> bytes | None:
        try:
            data: bytes | None = self._db.get(key)
        except Exception as error:  # the library has no exception class for damage
            raise _unreadable(self._folder, error) from error
        return data

    def _write(self, puts: Mapping[bytes, bytes], deletes: Collection[bytes]) -> None:
        from rocksdict import WriteBatch, WriteOptions

        self._revive()
        batch = WriteBatch(raw_mode=True)
        for key in deletes:
            batch.delete(key)
        for key, data in puts.items():
            batch.put(key, data)
        options = WriteOptions()
        options.sync = self._sync
        try:
            self._db.write(batch, options)
        except Exception as error:  # the library has no exception class for disk errors
            self._sound = False
            hint = "if the disk is full, free some space: the write is repeated"
            raise ServiceError(
                "the checkpoint could not be written", detail=str(error), hint=hint
            ) from error

    def _revive(self) -> None:
        """Opens the database anew after a failed write: until then RocksDB accepts no other, even
        with free space."""
        if self._sound:
            return
        self.close()
        self._db = _open(self._folder)
        self._sound = True


def _open(folder: Path) -> Rdict:
    from rocksdict import Options, Rdict

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unreadable(folder, error) from error
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(8 << 20)
    options.set_keep_log_file_num(2)
    try:
        return Rdict(str(folder), options)
    except Exception as error:  # as above
        raise _unreadable(folder, error) from error


def give_up(folder: Path) -> str:
    """Returns the command that moves a store to where none is looked for."""
    return f"mv '{folder}' '{folder.parent.parent / f'damaged-{folder.name}'}'"


def _unreadable(folder: Path, error: Exception) -> ServiceError:
    """Returns the error for a store that cannot be opened or read: it is damaged, or in use."""
    detail = " ".join(str(error).split())
    what, hint = "cannot be opened", "another server may be using the folder"
    if re.search(r"\block\b", detail, re.IGNORECASE) is None:
        what = "is damaged, or cannot be read"
        hint = (
            "see that its disk has space and this user may write there, or restore the data"
            f" folder from a backup; or give the store up, and start again: {give_up(folder)}. What"
            " was done is repeated from the topic _epochs; if that does not reach back, jobs start"
            " without their state, or the start says what is missing"
        )
    return ServiceError(f"checkpoint store '{folder}' {what}", detail=detail, hint=hint)
