"""A disk in memory that knows what was synced.

A write changes a file at once, as the page cache does; `sync` makes the content durable,
`sync_folder` the names. The death of the process loses nothing that was written, but the write that
it struck may be there in part. A loss of power loses any part of what was not synced: of each
folder the last changes of names, of each file the last writes, one of them torn, or (`wild`) any of
them with zeros in their places."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlengine.system.disk import Data
from tests.simulation.files import File, Folder, Names, Node, copied, write
from tests.simulation.world import Death, World


class SimulatedDisk:
    """See `Disk`. `crashes_now` is asked before every change whether the process dies there. `full`:
    whether there is no space, for a path. Reading is no change, and is not in the trace."""

    def __init__(self, world: World, owner: str, crashes_now: Callable[[], bool]) -> None:
        self.root = Folder()
        self._names = Names()
        self.dead = False
        self._boots = 0
        self.full: Callable[[str], bool] = lambda path: False
        self._world = world
        self._owner = owner
        self._crashes_now = crashes_now
        self._open: dict[int, tuple[File, str]] = {}
        self._next = 1

    def copy(self, world: World) -> SimulatedDisk:
        """All that is on it, for another process that does not die."""
        disk = SimulatedDisk(world, self._owner, lambda: False)
        disk.root = copied(self.root)
        return disk

    # ---- the end of a process, and of power ------------------------------------------------------

    def end_process(self) -> None:
        """Its open files and locks are gone; what it has written stays."""
        for file, _ in self._open.values():
            file.locked = None
        self._open.clear()
        self.dead = False

    def lose_power(self, *, wild: bool) -> None:
        """Any part of what was not synced is lost, too."""
        self._boots += 1
        self.end_process()
        self._names.lose(self._world.chance)
        self._settle(self.root, wild)

    def _settle(self, folder: Folder, wild: bool) -> None:
        folder.entries = dict(folder.durable)
        for node in folder.entries.values():
            if isinstance(node, Folder):
                self._settle(node, wild)
            else:
                self._settle_file(node, wild)

    def _settle_file(self, file: File, wild: bool) -> None:
        if file.unsynced:
            chance = self._world.chance
            if wild and chance.random() < 0.5:
                kept = [c for c in file.unsynced if chance.random() < 0.5]
            else:
                kept = file.unsynced[: chance.randint(0, len(file.unsynced))]
            if kept and kept[-1][1] is not None and chance.random() < 0.5:
                position, data = kept.pop()
                kept.append((position, (data or b"")[: chance.randint(0, len(data or b""))]))
            for change in kept:
                write(file.durable, *change)
            file.unsynced.clear()
        file.data = bytearray(file.durable)

    def boot_id(self) -> str:
        return f"boot-{self._boots}"

    # ---- what the process does -------------------------------------------------------------------

    def _change(self, what: str, path: str, size: int = 1, position: int = 0) -> int | None:
        """Notes a change that is to come. None when it goes on; else the process dies once so much
        of it is done."""
        if self.dead:
            raise Death
        self._world.note(self._owner, what, path, size, position)
        if not self._crashes_now():
            return None
        self.dead = True
        return self._world.chance.randint(0, size)

    def _whole(self, what: str, path: Path | str, work: Callable[[], object]) -> None:
        part = self._change(what, str(path))
        if part != 0:
            work()
        if part is not None:
            raise Death

    def _look(self, path: Path) -> Node:
        if self.dead:
            raise Death
        node: Node = self.root
        for name in path.parts[1:]:
            if not isinstance(node, Folder) or name not in node.entries:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            node = node.entries[name]
        return node

    def _folder(self, path: Path) -> Folder:
        node = self._look(path)
        if not isinstance(node, Folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return node

    def _file(self, path: Path) -> File:
        node = self._look(path)
        if not isinstance(node, File):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        return node

    def open(
        self, path: Path, *, make: bool = False, empty: bool = False, mode: int = 0o600
    ) -> int:
        if make and not self.exists(path):
            if self.full(str(path)):
                self._world.met["no space"] += 1
                raise _no_space()
            folder = self._folder(path.parent)
            self._whole("make", path, lambda: self._names.change((folder, path.name, File())))
        file = self._file(path)
        if empty and file.data:
            self._whole("empty", path, lambda: file.cut(0))
        self._next += 1
        self._open[self._next] = file, str(path)
        return self._next

    def open_to_read(self, path: Path) -> int:
        return self.open(path)

    def close(self, file: int) -> None:
        known = self._open.pop(file, None)
        if known is not None and known[0].locked == file:
            known[0].locked = None

    def _opened(self, file: int) -> tuple[File, str]:
        if self.dead:
            raise Death
        if file not in self._open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._open[file]

    def size(self, file: int | Path) -> int:
        return len((self._opened(file)[0] if isinstance(file, int) else self._file(file)).data)

    def is_named(self, file: int) -> bool:
        return self._opened(file)[0].named

    def pread(self, file: int, size: int, position: int) -> bytes:
        return bytes(self._opened(file)[0].data[position : position + size])

    def pwrite(self, file: int, data: Data, position: int) -> int:
        target, path = self._opened(file)
        written = bytes(data)
        if self.full(path) and position + len(written) > len(target.data):
            written = written[: self._world.chance.randint(0, len(written) - 1)]
            self._world.met["no space"] += 1
            if not written:
                self._world.note(self._owner, "no space", path)
                raise _no_space()
        part = self._change("write", path, len(written), position)
        if part != 0:
            target.write(position, written[:part])
        if part is not None:
            self._world.met["torn write"] += 0 < part < len(written)
            raise Death
        return len(written)

    def pwritev(self, file: int, parts: Sequence[bytes], position: int) -> int:
        return self.pwrite(file, b"".join(parts), position)

    def truncate(self, file: int, size: int) -> None:
        target, path = self._opened(file)
        if len(target.data) != size:
            self._whole("truncate", path, lambda: target.cut(size))

    def sync(self, file: int) -> None:
        target, path = self._opened(file)
        self._whole("sync", path, target.sync)

    def sync_folder(self, folder: Path) -> None:
        found = self._folder(folder)
        self._whole("sync", folder, lambda: self._names.sync(found))

    def lock(self, file: int) -> bool:
        target, _ = self._opened(file)
        if target.locked is not None:
            return False
        target.locked = file
        return True

    def read(self, path: Path, size: int = -1) -> bytes:
        data = self._file(path).data
        return bytes(data if size < 0 else data[:size])

    def names(self, folder: Path) -> list[str]:
        return sorted(self._folder(folder).entries) if self.is_folder(folder) else []

    def exists(self, path: Path) -> bool:
        try:
            self._look(path)
        except FileNotFoundError:
            return False
        return True

    def is_folder(self, path: Path) -> bool:
        return self.exists(path) and isinstance(self._look(path), Folder)

    def make_folder(self, path: Path, *, parents: bool = False, mode: int = 0o777) -> None:
        if self.exists(path):
            if not parents:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
            return
        if parents and not self.exists(path.parent):
            self.make_folder(path.parent, parents=True)
        if self.full(str(path)):
            self._world.met["no space"] += 1
            raise _no_space()
        folder = self._folder(path.parent)
        self._whole("folder", path, lambda: self._names.change((folder, path.name, Folder())))

    def rename(self, old: Path, new: Path) -> None:
        node, source, target = self._look(old), self._folder(old.parent), self._folder(new.parent)
        replaced = target.entries.get(new.name)
        if replaced is node:
            return
        if isinstance(node, Folder):
            if new.is_relative_to(old):
                raise _error(errno.EINVAL)
            if isinstance(replaced, File):
                raise _error(errno.ENOTDIR)
            if replaced is not None and replaced.entries:
                raise _error(errno.ENOTEMPTY)
        elif isinstance(replaced, Folder):
            raise _error(errno.EISDIR)

        def work() -> None:
            if isinstance(replaced, File):
                replaced.named = False
            self._names.change((source, old.name, None), (target, new.name, node))

        self._whole("rename", f"{old} {new.name}", work)

    def remove(self, path: Path) -> None:
        if not self.exists(path):
            return
        file, folder = self._file(path), self._folder(path.parent)

        def work() -> None:
            file.named = False
            self._names.change((folder, path.name, None))

        self._whole("remove", path, work)

    def remove_folder(self, path: Path) -> None:
        if not self.is_folder(path):
            return
        for name in self.names(path):
            if self.is_folder(path / name):
                self.remove_folder(path / name)
            else:
                self.remove(path / name)
        parent = self._folder(path.parent)
        self._whole("remove", path, lambda: self._names.change((parent, path.name, None)))

    def random(self, size: int) -> bytes:
        return self._world.chance.randbytes(size)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def _no_space() -> OSError:
    return _error(errno.ENOSPC)
