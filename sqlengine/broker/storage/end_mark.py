"""The mark of a clean stop: how far a shard's log reached when it was closed.

A torn end of a log is cut when it is opened, because a process that dies may leave one. What was
there at a clean stop cannot be torn: if it is missing, the file was damaged since.

The file `end.mark` in the shard's folder is one line: the next offset, the start of the machine in
which it was written, whether the log was synced before, the size of the last segment (not in older
ones), and a CRC-32 of these. It is never removed:
a log only grows, so an older mark stays true."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from sqlengine.system.disk import Disk

NAME: Final = "end.mark"
_LIMIT: Final = 200  # bytes; a mark has fewer


class EndMark(NamedTuple):
    """`offset`: where the log ended. `boot`: the start of the machine. `synced`: the log was on
    disk, so that a loss of power explains nothing. `size`: that of the last segment, in bytes; -1
    where it is not known."""

    offset: int
    boot: str
    synced: bool
    size: int = -1

    def must_hold(self, disk: Disk) -> bool:
        """True if nothing but damage explains a log that ends before the mark."""
        return self.synced or self.boot == disk.boot_id()


NO_MARK: Final = EndMark(0, "", synced=False)


def read_end_mark(folders: Sequence[Path], disk: Disk) -> EndMark:
    """Returns the latest mark of a shard; `NO_MARK` where none can be read."""
    return max((_read(folder / NAME, disk) for folder in folders), default=NO_MARK)


def _read(path: Path, disk: Disk) -> EndMark:
    try:
        text, _, crc = disk.read(path, _LIMIT).decode().strip().rpartition(" ")
        if int(crc, 16) == zlib.crc32(text.encode()):
            offset, boot, synced, *size = text.split(" ")
            return EndMark(int(offset), boot, synced == "synced", *map(int, size[:1]))
    except (OSError, ValueError):
        pass  # a mark only adds certainty: without one the log is what it was without marks
    return NO_MARK


def write_end_mark(folder: Path, offset: int, size: int, disk: Disk, *, synced: bool) -> None:
    """Writes the mark of a shard that is closed now; leaves it out where the disk refuses."""
    text = f"{offset} {disk.boot_id()} {'synced' if synced else 'written'} {size}"
    line = f"{text} {zlib.crc32(text.encode()):08x}\n".encode()
    unfinished = folder / (NAME + ".tmp")
    with suppress(OSError):
        file = disk.open(unfinished, make=True, empty=True)
        try:
            complete = disk.pwrite(file, line, 0) == len(line)
        finally:
            disk.close(file)
        if complete:
            disk.rename(unfinished, folder / NAME)
