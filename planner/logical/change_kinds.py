"""What may come in a stream besides new rows."""

from __future__ import annotations

from enum import Flag


class ModifyKindSet(Flag):
    """What may come besides +I: `UPDATES` pairs of -U and +U, `DELETES` rows -D. Inside a plan
    every change of a row is told in full: a row that goes is named with all its columns. Only a
    table's own rows may be `UPSERTS`: +U without the row that it replaces, which the primary key
    tells, and -D of which the key is all that counts."""

    NONE = 0
    UPDATES = 1
    DELETES = 2
    ALL = 3
    UPSERTS = 4
