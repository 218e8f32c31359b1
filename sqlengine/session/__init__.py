from __future__ import annotations

from typing import Final

# Rows that a script reads at once: nobody waits for the first of them. Twice as many cost the same
# for each row, a quarter of them up to half as much more.
ROWS_PER_READ: Final = 16_384
