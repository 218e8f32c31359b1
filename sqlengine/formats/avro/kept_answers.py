"""Answers of a schema registry, kept as files of the data folder for when it is away."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

# In the data folder.
FOLDER: Final = "schemas"
_CHECKSUM: Final = 4  # bytes at the end of a file


class Answer(msgspec.Struct):
    """The answer of a registry: the text of a schema, or its id."""

    schema: str = ""
    id: int = -1
    schemaType: str = "AVRO"  # noqa: N815  its name there


@dataclass(frozen=True)
class KeptAnswers:
    """The answers of one registry to those who ask as one does, each for ever: a file a question in
    `folder` (None: nothing is kept). Any number of processes may read and write there."""

    folder: Path | None = None

    @classmethod
    def of(cls, data: Path | None, *who: str) -> KeptAnswers:
        """Returns what is kept in a data folder (None: nothing) for those who ask as `who` says."""
        if data is None:
            return cls()
        return cls(data / FOLDER / sha256(msgspec.json.encode(who)).hexdigest()[:32])

    def get(self, question: str) -> Answer | None:
        """Returns the last answer; None where there is none, or its file is damaged."""
        if self.folder is None:
            return None
        try:
            data = self._file(question).read_bytes()
            body, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
            if zlib.crc32(body).to_bytes(_CHECKSUM, "big") == checksum:
                return msgspec.json.decode(body, type=Answer)
        except (OSError, msgspec.DecodeError):
            pass  # it is asked for again
        return None

    def put(self, question: str, answer: Answer) -> None:
        """Keeps an answer. Raises OSError."""
        if self.folder is None or self.get(question) == answer:
            return
        body, file = msgspec.json.encode(answer), self._file(question)
        self.folder.mkdir(parents=True, exist_ok=True)
        scratch = file.with_name(f".{file.name}-{os.getpid()}")
        scratch.write_bytes(body + zlib.crc32(body).to_bytes(_CHECKSUM, "big"))
        scratch.replace(file)

    def _file(self, question: str) -> Path:
        assert self.folder is not None
        return self.folder / sha256(question.encode()).hexdigest()[:32]
