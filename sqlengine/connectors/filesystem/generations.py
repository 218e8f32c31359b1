"""One of the files that a log has been: how it is known again under another name.

A log that is rotated is a sequence of files, which are called its generations here. Each is a shard
of its own. Its name has the path of the log, and says which file it was, so that whatever stores
positions stores that, too:

    /var/log/app.log//1a2b.40.9f86d081884c7d65        inode.length.hash of the first line

An inode alone proves nothing, since a new file may get that of a removed one, and since a copy or
an archive has another; the first line proves nothing where all files begin with one header.
So a file that is read also keeps the hashes of its first bytes and of the last ones before its
position (`Generation.mark`). As long as it has nothing but a first line it may be any file that
begins so and has been changed since (`Generation.may_be`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from xxhash import xxh64_hexdigest

from sqlengine.batch import ROTATED, log_of
from sqlengine.connectors.filesystem.long_records import digest_of
from sqlengine.connectors.filesystem.opened import OpenFile

# So many bytes at the beginning of a file, and before the position in it, tell files apart.
HEAD: Final = 1024
TAIL: Final = 256
_TICK_NS: Final = 50 * 10**6
# Two files that agree in so many bytes, where both have them, are one file and its copy.
COPY: Final = 1 << 16


@dataclass(frozen=True)
class Check:
    """A hash of the bytes of a file from `start` on."""

    start: int
    length: int
    digest: str

    @staticmethod
    def of(start: int, data: bytes) -> Check:
        """Makes the check that `data` passes."""
        return Check(start, len(data), xxh64_hexdigest(data))

    def holds(self, file: OpenFile) -> bool:
        """True if the file has these bytes."""
        return digest_of(file.read, self.start, self.start + self.length) == self.digest

    def __str__(self) -> str:
        return f"{self.start:x}.{self.length:x}.{self.digest}"


@dataclass
class Generation:
    """One file of a log, and how far it is read. `shard`: its name. `inode`: where it was first
    seen; None if the position is that of an older version, which knew files by their path.

    `offset`: the next byte that the graph reads. `drained`: there was no whole line after that when
    it was last looked for. `file`: None where it is not open: it was not looked for yet, is not
    needed any more (`shut`), or is nowhere (`gone`). `modified`: the last change (ns) that was
    seen; `after`: that of an older file. `told`: its loss was reported. `seen`: size and last
    change of the open file when it was found to be intact; `size`: the most bytes that it had.
    `head`, `tail`: the first bytes, and the last ones before `tail_end`. `expected`: what a
    recovery is about to read again."""

    shard: str
    inode: int | None
    checks: tuple[Check, ...]
    offset: int = 0
    modified: int = 0
    file: OpenFile | None = None
    drained: bool = False
    shut: bool = False
    gone: bool = False
    told: bool = False
    head: bytes = b""
    tail: bytes = b""
    tail_end: int = 0
    expected: Check | None = None
    seen: tuple[int, int] = (0, 0)
    size: int = 0
    after: int = 0

    def is_in(self, file: OpenFile) -> bool:
        """True if the file begins as this one does, and has what was read of it."""
        return self._has(self._starts()[-1:], file)

    def is_in_copy(self, file: OpenFile) -> bool:
        """True if the file has what was read of this one, and is a copy of it; one that was made
        before all was written that was seen."""
        starts, size = self._starts(), len(file.read(0, HEAD))
        known = [check for check in starts if check.length <= size]
        enough = (
            len(known) > 1
            or known == starts
            or bool(known and known[0].length == self.offset == size)
        )
        return bool(known) and enough and self._has(known[-1:], file)

    def _has(self, starts: Sequence[Check], file: OpenFile) -> bool:
        if self.offset and not file.read(self.offset - 1, 1):
            return False
        known = [*starts, *self._ends(), self.expected]
        return all(check.holds(file) for check in known if check is not None)

    def begins(self, file: OpenFile) -> bool:
        """True if the file begins as this one does, as far as that is known."""
        known = self._starts()[-1:]
        return bool(known) and known[0].holds(file)

    def has_copy(self, file: OpenFile) -> bool:
        """True if the file is the beginning of this one, which was read further than that: a copy
        that was made before. Its first line alone says nothing, but there is nothing else to
        read."""
        if not self.offset or file.read(self.offset, 1):
            return False
        size = len(file.read(0, HEAD))
        known = [check for check in self._starts() if check.length <= size]
        return bool(known) and (len(known) > 1 or size == known[0].length) and known[-1].holds(file)

    def take_file(self, file: OpenFile) -> None:
        """Makes it the file of this one. It may be a copy that is shorter than what was seen."""
        data = file.read(0, HEAD)
        self.file, self.inode, self.head = file, file.inode, self.head[: len(data)]
        self.drained = False
        self.checks = tuple(c for c in self.checks if c.start or c.length <= len(data))

    @property
    def has_only_first_line(self) -> bool:
        """True if nothing but a first line was seen of it, which other files may have, too."""
        known = self._starts()
        return len(known) == 1 and known[0].length < HEAD

    def may_be(self, file: OpenFile, modified: int) -> bool:
        """True if a file that begins as this one does, and was changed at this time (ns), may be
        it: one that is older, or has more although it was not changed, is another one."""
        if not self.has_only_first_line:
            return True
        if modified > max(self.modified, self.after):
            return True
        return modified == self.modified and not file.read(self._starts()[0].length, 1)

    def is_intact(self) -> bool:
        """True if the open file is still what it was; asked again once it has changed."""
        file = self.file
        assert file is not None
        size, modified = file.size(), file.modified()
        if file.final or size is None:
            self.head = self.head or file.read(0, HEAD)
            return True
        # Two changes within a tick of the file system's clock have one time.
        if self.seen == (size, modified) and time.time_ns() - modified > _TICK_NS:
            return True
        if self.seen not in ((0, 0), (size, modified)) and self.has_only_first_line:
            return False  # it may have been emptied, and begun with the same header
        head = file.read(0, HEAD)
        if size < max(self.offset, self.seen[0]) or not head.startswith(self.head):
            return False
        if not self.is_in(file):
            return False
        self.seen, self.modified, self.head = (size, modified), modified, head
        self.size = max(self.size, size)
        return True

    def take(self, start: int, data: bytes) -> None:
        """Notes what was read, from `start` on."""
        end = start + len(data)
        before = self.tail if start == self.tail_end else b""
        self.tail, self.tail_end = (before + data)[-TAIL:], end
        self.offset, self.drained = max(self.offset, end), False

    def digest(self, start: int, data: bytes) -> str:
        """Returns the digest of what was read from `start` on, as `marked` has it."""
        return self.marked(Check.of(start, data).digest)

    def marked(self, digest: str) -> str:
        """Returns the digest of what was read; where that is nothing but a first line, with the
        last change of the file, which tells it from others."""
        return f"{digest}.{self.modified:x}" if self.has_only_first_line else digest

    def expect(self, start: int, length: int, digest: str) -> None:
        """Notes what is about to be read again, by its digest."""
        digest, _, modified = digest.partition(".")
        self.expected = Check(start, length, digest)
        self.modified = max(self.modified, int(modified or "0", 16))

    def _starts(self) -> list[Check]:
        """Returns the check of the first line, and those of more and more of the beginning."""
        read = [self.tail] if self.tail_end == len(self.tail) else []
        made = (Check.of(0, data) for data in (*read, *_beginnings(self.head)) if data)
        first = self.checks[0].length if self.checks else 0
        checks = {c.length: c for c in (*self.checks[1:], *made) if not c.start}
        return [*self.checks[:1], *(checks[n] for n in sorted(checks) if n > first)]

    def _ends(self) -> list[Check]:
        """Returns the check of what was read last."""
        tail = Check.of(self.tail_end - len(self.tail), self.tail)
        return sorted((c for c in (*self.checks, tail) if c.start), key=lambda c: c.start)[-1:]

    @property
    def mark(self) -> str:
        """A text that tells this file from others: its last change, and checks."""
        return ",".join([f"{self.modified:x}", *map(str, (*self._starts(), *self._ends()))])

    def recall(self, mark: str) -> None:
        """Takes up what `mark` was in a former process."""
        modified, *checks = mark.split(",")
        self.modified = int(modified, 16)
        self.checks = tuple(map(_check, checks)) or self.checks

    def close(self) -> None:
        """Closes the file. It is looked for again when it is needed."""
        file, self.file, self.seen = self.file, None, (0, 0)
        if file is not None:
            file.close()


def _beginnings(head: bytes) -> list[bytes]:
    """Returns the first 2, 4, 8, … lines of a head, and all of it."""
    ends = [i + 1 for i, byte in enumerate(head) if byte == 10]
    chosen = [ends[(2 << i) - 1] for i in range(10) if 2 << i <= len(ends)]
    return [head[:end] for end in dict.fromkeys((*chosen, len(head))) if end]


def _check(text: str) -> Check:
    start, length, digest = text.split(".")
    return Check(int(start, 16), int(length, 16), digest)


def known(shard: str, offset: int) -> Generation:
    """Returns the generation of a shard that was read to `offset`."""
    path = log_of(shard)
    if path == shard:
        return Generation(shard, None, (), offset)
    inode, length, digest, *_ = shard[len(path) + len(ROTATED) :].split(".")
    check = Check(0, int(length, 16), digest)
    return Generation(shard, int(inode, 16), (check,), offset)


def identified(path: str, file: OpenFile, taken: set[str]) -> Generation | None:
    """Returns the generation of the log at `path` that the file is; None as long as it has no whole
    line. `taken`: the names of others."""
    line = first_line(file)
    if not line:
        return None
    shard = name = f"{path}{ROTATED}{file.inode:x}.{len(line):x}.{xxh64_hexdigest(line)}"
    count = 1
    while shard in taken:  # truncated, and begun with the same header
        count += 1
        shard = f"{name}.{count}"
    generation = Generation(shard, file.inode, (Check.of(0, line),), file=file)
    generation.modified = file.modified()
    return generation if generation.is_intact() else None


def first_line(file: OpenFile) -> bytes:
    """Returns the first line, or as much of it as tells files apart; nothing while it is
    written."""
    data = file.read(0, HEAD)
    end = data.find(b"\n") + 1
    return data[:end] if end else data if file.final or len(data) == HEAD else b""


def is_copy(file: OpenFile, original: OpenFile) -> bool:
    """True if the original begins with what is in the file."""
    data = file.read(0, COPY)
    return original.read(0, len(data)) == data
