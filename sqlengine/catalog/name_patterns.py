"""Names that LIKE accepts, of SHOW and of drivers' metadata."""

from __future__ import annotations


def fits(name: str, pattern: str) -> bool:
    """True if a pattern with % (any characters) and _ (any one) is that of a name. It takes
    at most as many steps as the product of their lengths, however many % there are.

    >>> fits("a_table", "%tab_e"), fits("abc", "%b"), fits("a" * 99, "%a" * 50 + "b")
    (True, False, False)
    """
    n = p = after = 0
    any_from: int | None = None  # the last %, whose characters end before `after`
    while n < len(name):
        if p < len(pattern) and pattern[p] == "%":
            any_from, after, p = p, n, p + 1
        elif p < len(pattern) and pattern[p] in ("_", name[n]):
            n, p = n + 1, p + 1
        elif any_from is not None:
            after += 1
            n, p = after, any_from + 1
        else:
            return False
    return not pattern[p:].strip("%")
