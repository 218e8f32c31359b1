"""Pages of lists: ?limit= says how many, ?after= behind which one, and `next` of the answer is the
`after` of the next page, null behind the last one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

from flask import request

from sqlengine.api.queries import whole_number
from sqlengine.broker.topic_access import BadRequest

T = TypeVar("T")


def page_of(items: Sequence[T], key: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """Returns the part of a list, ordered by `key`, that a request asks for, all without a limit,
    and where the next page begins."""
    after, limit = request.args.get("after", ""), page_size(len(items))
    start = bisect_right(items, after, key=key) if after else 0
    return cut(items[start:], limit, key)


def page_behind(items: Sequence[T], key: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """Returns the part of a list in another order than that of its keys. BadRequest where the last
    item of the page before is gone."""
    after, limit, start = request.args.get("after", ""), page_size(len(items)), 0
    if after:
        start = next((n for n, item in enumerate(items, 1) if key(item) == after), -1)
    if start < 0:
        raise BadRequest(f"'after' names nothing that is there: '{after[:60]}'")
    return cut(items[start:], limit, key)


def page_size(most: int) -> int:
    """Returns how many a request asks for, `most` where it does not say. BadRequest for none."""
    limit = whole_number("limit", max(1, most))
    if limit < 1:
        raise BadRequest("'limit' must be 1 at least", detail=f"it is {limit}")
    return limit


def cut(items: Sequence[T], limit: int, key: Callable[[T], str]) -> tuple[Sequence[T], str | None]:
    """Returns the first items, and the key of the last of them where others follow."""
    return items[:limit], key(items[limit - 1]) if len(items) > limit else None
