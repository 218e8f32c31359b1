"""Rows between the driver and tasks that are too many for Spark's own driver: its memory is small.

They are in files of the folder that all machines have, and Spark carries where. This module does
not import Spark."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Final, Self

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from sqlengine.executors.spark.worker import FAILED, Batches

# Neither Arrow nor JSON begins so.
_MARK: Final = b"\0in "
_FOLDER: Final = "handed-over"


class _Place(msgspec.Struct, frozen=True):
    file: str
    start: int
    length: int


def handed_over_in(folder: Path) -> Path:
    """Returns where such files are for the tasks of a graph, whose folder is given."""
    return folder / _FOLDER


class HandedOver:
    """One file of encoded rows, which is written when the first ones come; closed behind the body.

    `folder` (a URI) is that of the graph's tasks. `most`: so many bytes need no file."""

    def __init__(self, folder: str, most: int) -> None:
        self._folder = folder
        self._left = most
        self._stream: pa.NativeFile | None = None
        self._uri, self._end = "", 0

    def put(self, data: bytes) -> bytes:
        """Returns what is to be carried: the rows themselves, or where they are."""
        self._left -= len(data)
        if self._left >= 0:
            return data
        if self._stream is None:
            self._uri = f"{self._folder}/{_FOLDER}/{token_hex(12)}"
            system, path = fs.FileSystem.from_uri(self._uri)
            system.create_dir(path.rpartition("/")[0], recursive=True)
            self._stream = system.open_output_stream(path)
        self._stream.write(data)
        place = _Place(self._uri, self._end, len(data))
        self._end += len(data)
        return _MARK + msgspec.json.encode(place)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._stream is not None:
            self._stream.close()


def is_elsewhere(data: bytes) -> bool:
    """True if rows are in a file, and this says where."""
    return data.startswith(_MARK)


def fetched(data: bytes) -> bytes:
    """Returns the encoded rows that `HandedOver.put` gave this for. OSError where they are gone."""
    if not is_elsewhere(data):
        return data
    place = msgspec.json.decode(data.removeprefix(_MARK), type=_Place)
    system, path = fs.FileSystem.from_uri(place.file)
    with system.open_input_file(path) as file:
        rows: bytes = file.read_at(place.length, place.start)
    return rows


def with_results_aside(frames: Batches, folder: str, most: int) -> Batches:
    """Passes on the frames of a task: of results beyond so many bytes, where they are."""
    with HandedOver(folder, most) as aside:
        for batch in frames:
            is_result = pc.and_(
                pc.greater_equal(batch["stage"], 0), pc.less(batch["stage"], FAILED)
            )
            if pc.any(is_result).as_py():
                rows = _put(aside, batch["batch"].to_pylist(), is_result.to_pylist())
                column = batch.schema.get_field_index("batch")
                yield batch.set_column(
                    column, batch.schema.field(column), pa.array(rows, pa.binary())
                )
            else:
                yield batch


def _put(
    aside: HandedOver, rows: Iterable[bytes | None], put: Iterable[bool]
) -> list[bytes | None]:
    return [
        aside.put(data) if wanted and data is not None and not is_elsewhere(data) else data
        for data, wanted in zip(rows, put, strict=True)
    ]


def discard_handed_over(folder: str) -> None:
    """Deletes all such files of a graph, between two epochs."""
    system, path = fs.FileSystem.from_uri(f"{folder}/{_FOLDER}")
    with suppress(FileNotFoundError):
        system.delete_dir(path)
