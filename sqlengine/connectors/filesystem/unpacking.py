"""Compressed files of lines, read from their beginning to their end."""

from __future__ import annotations

from parser.errors import ExecutionError
from sqlengine.connectors.filesystem.opened import ArchiveFile
from sqlengine.system.file_access import FileAccess


class Unpacked:
    """The bytes of a compressed file by their offsets without compression. What was read last is
    kept: to read on before it begins anew."""

    def __init__(self, path: str, access: FileAccess) -> None:
        """Raises as `FileAccess.open`."""
        self._path = path
        self._file = ArchiveFile(path, access)
        self._at, self._kept = 0, b""

    @property
    def size(self) -> int | None:
        """The number of bytes; None before they were read to the end."""
        return self._file.size()

    def read(self, start: int, length: int) -> bytes:
        """Returns the bytes from `start` on; fewer than `length` at the end alone. ExecutionError
        where the file is damaged, or cut off."""
        if not self._at <= start <= self._at + len(self._kept):
            self._kept = b""
        else:
            self._kept = self._kept[start - self._at :]
        self._at = start
        if len(self._kept) < length:
            behind = start + len(self._kept)
            self._kept += self._file.read(behind, length - len(self._kept))
        if self._file.damage is not None:
            raise ExecutionError(
                f"file '{self._path}' is damaged behind byte {self._file.size() or 0:,} of its"
                " contents",
                detail=self._file.damage,
                hint=(
                    "replace it and start the job again, or leave out such files:"
                    " 'source.unreadable-files' = 'skip'"
                ),
            )
        return self._kept[:length]

    def close(self) -> None:
        self._file.close()
