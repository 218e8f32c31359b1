"""What may come in a stream besides new rows."""

from __future__ import annotations

from enum import Flag


class Changes(Flag):
    """What may come besides +I: `UPDATES` pairs of -U and +U, `DELETES` rows -D. Inside a plan every change of a row is
    told in full: a row that goes is named with all its columns."""

    NONE = 0
    UPDATES = 1
    DELETES = 2
    ALL = 3
