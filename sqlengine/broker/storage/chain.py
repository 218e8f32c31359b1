"""Opens the segments of a shard: a chain of files in one or more folders.

Each segment holds the offsets from its first up to that of the next one. A segment may be in any of
the shard's folders: a shard can move while its offsets stay, unnoticed by its readers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from sqlengine.broker.errors import BrokerError, corrupt_segment
from sqlengine.broker.storage.head import State, file_base, file_generation, file_name
from sqlengine.broker.storage.segment import Segment, Tail
from sqlengine.system.disk import MACHINE, Disk


class Options(NamedTuple):
    """The options of a shard's files.

    `durable`: an append returns when it is on disk. `synced`: a file is on disk before the next one
    begins.
    """

    segment_bytes: int
    durable: bool
    synced: bool
    disk: Disk = MACHINE


def open_chain(folders: Sequence[Path], options: Options) -> tuple[Segment, ...]:
    """Opens the segments in `folders`, in order; removes the leftovers of interrupted changes.

    Raises BrokerError if a folder is missing, and CorruptSegment.
    """
    disk = options.disk
    for folder in folders:
        if not disk.is_folder(folder):
            raise BrokerError(
                f"the folder {str(folder)!r} of a topic is not there",
                detail="records that were moved there would be missing",
                hint="mount its disk, then start again",
            )
    for unfinished in _files(folders, ".tmp", disk):
        disk.remove(unfinished)
    segments: list[Segment] = []
    torn: Path | None = None
    for path in current_files(folders, disk):
        segment = Segment.open(path, disk)
        if segment is None:
            torn = path
        elif torn is not None:
            raise corrupt_segment(
                torn, 0, file_base(torn), "it ends within its head, and later files follow"
            )
        elif segments and segment.base < (segments[-1].state.covers or 0):
            # Compaction was interrupted after it had published its result, which covers this one.
            segment.remove()
        else:
            segments.append(segment)
    if torn is not None:
        # Only a power failure leaves such a file, in an fsync mode that does not survive one.
        disk.remove(torn)
    if not segments:
        base = file_base(torn) if torn is not None else 0
        segments = [
            Segment.create(folders[-1] / file_name(base), State(base), disk, durable=options.synced)
        ]
    # Only the last segment may grow. Where the others end is known from the head of their
    # successor, so that they need not be read.
    for segment, following in pairwise(segments):
        size = disk.size(segment.path)
        segment.tail = Tail(following.base, size, following.state.max_timestamp)
    return tuple(segments)


def _files(folders: Sequence[Path], ending: str, disk: Disk) -> list[Path]:
    return [
        folder / name for folder in folders for name in disk.names(folder) if name.endswith(ending)
    ]


def current_files(folders: Sequence[Path], disk: Disk) -> list[Path]:
    """Returns the segment files in order; removes those that were replaced.

    Of files with the same base, the one of the highest generation counts (compaction), or the one
    in the later folder (a move).
    """
    newest: dict[int, Path] = {}
    for path in sorted(_files(folders, ".seg", disk), key=file_generation):
        replaced = newest.get(file_base(path))
        if replaced is not None:
            disk.remove(replaced)
        newest[file_base(path)] = path
    return [newest[base] for base in sorted(newest)]
