"""A shard is a chain of segments: each holds the offsets from its first up to that of the next one,
and stands in one of the shard's folders. So its place changes while its offsets stay, and its
readers notice nothing."""

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
    """`durable`: an append returns when it is on disk. `synced`: a file is on disk before the next
    one begins."""

    segment_bytes: int
    durable: bool
    synced: bool
    disk: Disk = MACHINE


def open_chain(folders: Sequence[Path], options: Options) -> tuple[Segment, ...]:
    """The segments in `folders`, in order; what an interrupted change left behind is removed."""
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
    for path in _current_files(folders, disk):
        segment = Segment.open(path, disk)
        if segment is None:
            torn = path
        elif torn is not None:
            raise corrupt_segment(
                torn, 0, file_base(torn), "it ends within its head, and later files follow"
            )
        elif segments and segment.base < (segments[-1].state.covers or 0):
            segment.remove()  # compaction was interrupted after its result had its name
        else:
            segments.append(segment)
    if torn is not None:
        disk.remove(
            torn
        )  # only a power loss leaves such a file, in a mode that promises nothing then
    if not segments:
        base = file_base(torn) if torn is not None else 0
        segments = [
            Segment.create(folders[-1] / file_name(base), State(base), disk, durable=options.synced)
        ]
    for segment, following in pairwise(segments):
        size = disk.size(segment.path)
        segment.tail = Tail(following.base, size, following.state.max_timestamp)
    return tuple(segments)


def _files(folders: Sequence[Path], ending: str, disk: Disk) -> list[Path]:
    return [
        folder / name for folder in folders for name in disk.names(folder) if name.endswith(ending)
    ]


def _current_files(folders: Sequence[Path], disk: Disk) -> list[Path]:
    """The segment files in order; of those with the same base the compacted one, or the one in the
    later folder, whither it was moved. The others are removed."""
    newest: dict[int, Path] = {}
    for path in sorted(_files(folders, ".seg", disk), key=file_generation):
        replaced = newest.get(file_base(path))
        if replaced is not None:
            disk.remove(replaced)
        newest[file_base(path)] = path
    return [newest[base] for base in sorted(newest)]
