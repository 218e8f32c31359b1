"""Files and folders in memory, each as it is now and as far as it is durable."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias


@dataclass(eq=False)
class File:
    """`unsynced`: what was done since the last sync, as (position, bytes), or (size, None) where it
    was cut."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)
    named: bool = True
    locked: int | None = None

    def write(self, position: int, data: bytes) -> None:
        write(self.data, position, data)
        self.unsynced.append((position, data))

    def cut(self, size: int) -> None:
        write(self.data, size, None)
        self.unsynced.append((size, None))

    def sync(self) -> None:
        for change in self.unsynced:
            write(self.durable, *change)
        self.unsynced.clear()


def write(data: bytearray, position: int, written: bytes | None) -> None:
    if written == b"":
        return
    if len(data) < position:
        data.extend(bytes(position - len(data)))
    if written is None:
        del data[position:]
    else:
        data[position : position + len(written)] = written


@dataclass(eq=False)
class Folder:
    entries: dict[str, Node] = field(default_factory=dict)
    durable: dict[str, Node] = field(default_factory=dict)


Node: TypeAlias = "File | Folder"
# What a name in a folder is from now on (None: nothing). What moves are two of them, and durable as
# one.
Renaming: TypeAlias = "tuple[tuple[Folder, str, Node | None], ...]"


def _apply(renaming: Renaming, *, durable: bool) -> None:
    for folder, name, node in renaming:
        entries = folder.durable if durable else folder.entries
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


class Names:
    """Changes of names that are not synced, in order. Those of a folder become durable in order."""

    def __init__(self) -> None:
        self._unsynced: list[Renaming] = []

    def change(self, *renaming: tuple[Folder, str, Node | None]) -> None:
        _apply(renaming, durable=False)
        self._unsynced.append(renaming)

    def sync(self, folder: Folder) -> None:
        """Those of the folder, and with what has moved those of other folders before it."""
        wanted, kept = {folder}, []
        for renaming in reversed(self._unsynced):
            folders = {f for f, _, _ in renaming}
            if folders & wanted:
                wanted |= folders
                kept.append(renaming)
        for renaming in reversed(kept):
            _apply(renaming, durable=True)
        self._unsynced = [r for r in self._unsynced if r not in kept]

    def lose(self, chance: Random) -> None:
        """Of each folder the last ones, by chance."""
        lost: set[Folder] = set()
        often = chance.choice((0.0, 0.1, 0.5, 1.0))
        for renaming in self._unsynced:
            folders = {f for f, _, _ in renaming}
            if folders & lost or chance.random() < often:
                lost |= folders
            else:
                _apply(renaming, durable=True)
        self._unsynced.clear()


def copied(folder: Folder) -> Folder:
    made = Folder()
    for name, node in folder.entries.items():
        made.entries[name] = (
            copied(node) if isinstance(node, Folder) else File(bytearray(node.data))
        )
    return made
