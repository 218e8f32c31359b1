"""Describes an error in a user's code, in a line that names its place there."""

from __future__ import annotations

import os
import traceback

_MOST = 300
_root = ""


def set_root(folder: str) -> None:
    """The folder of the user's sources: of a trace, the last line in it is shown."""
    global _root
    _root = os.path.join(folder, "")


def reason_of(error: BaseException) -> str:
    """`ValueError: no number (text.py, line 12)`."""
    said = str(error).strip().replace("\n", " ")[:_MOST]
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return (
            f"{what} ({_relative(error.filename)}, line {error.lineno})"
            if "line" not in what
            else what
        )
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(_root)]
    return (
        f"{what} ({_relative(frames[-1].filename)}, line {frames[-1].lineno})"
        if frames and _root
        else what
    )


def _relative(path: str) -> str:
    return path.removeprefix(_root)
