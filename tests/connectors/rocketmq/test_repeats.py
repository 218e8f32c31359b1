"""Messages of ours that come again give no second row, wherever reading stops, goes back and goes
on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sqlengine.broker.rocketmq.messages import property_text
from sqlengine.broker.rocketmq.repeats import (
    PROPERTY,
    Origin,
    Repeats,
    origin_of,
    origin_prefix,
)


@st.composite
def queues(draw: st.DrawFn) -> list[Origin]:
    """A queue of two writers: each delivers its messages in order, and after a failure again from
    any place that came before."""
    queue: list[Origin] = []
    for writer in ("a", "b"):
        own = [Origin(e, n, writer) for e in (3, 4, 9) for n in range(draw(st.integers(0, 3)))]
        sent, at = [], 0
        while at < len(own):
            stop = draw(st.integers(at + 1, len(own)))
            sent += own[at:stop]
            at = stop
            if draw(st.booleans()) and len(sent) < 30:
                at = draw(st.integers(0, at))
        places = sorted(
            draw(st.lists(st.integers(0, len(queue)), min_size=len(sent), max_size=len(sent)))
        )
        for number, (place, origin) in enumerate(zip(places, sent, strict=True)):
            queue.insert(place + number, origin)
    return queue


def read(repeats: Repeats, queue: list[Origin], begin: int, end: int) -> list[Origin]:
    repeats.begin(begin)
    rows = [o for o in queue[begin:end] if not repeats.came_before(o)]
    repeats.end(end)
    return rows


@given(queues(), st.data())
def test_each_message_is_a_row_once(queue: list[Origin], data: st.DataObject) -> None:
    """Chunks are read one after the other. One may be read and not taken, and is read again; a
    restart knows the mark and the position alone, where a chunk begins or ends."""
    repeats, at, rows = Repeats(), 0, []
    while at < len(queue):
        end = data.draw(st.integers(at, len(queue)))
        chunk = read(repeats, queue, at, end)
        assert read(repeats, queue, at, end) == chunk, "what is read again is the same"
        match data.draw(st.sampled_from(["on", "dropped", "before", "behind"])):
            case "dropped":
                continue
            case "before":
                repeats = Repeats(repeats.mark())
                continue
            case "behind":
                repeats = Repeats(repeats.mark())
        rows += chunk
        at = end
        if end == len(queue):
            break
    assert len(rows) == len(set(rows))
    assert set(rows) == set(queue[:at])


def test_few_writers_are_remembered() -> None:
    repeats = Repeats()
    for writer in range(1000):
        assert not repeats.came_before(Origin(1, 0, f"w{writer}"))
        assert repeats.came_before(Origin(1, 0, f"w{writer}"))
        repeats.end(writer)
    assert len(repeats.mark() or "") < 5000


def test_properties_tell_the_origin() -> None:
    origin = Origin(12, 3, "ab12")
    for before in ("", property_text({"x": "y"})):
        text = before + origin_prefix("ab12", 12) + "3\x02"
        assert origin_of(text.encode()) == origin
        assert origin_of((text + property_text({"z": ""})).encode()) == origin
    for other in (
        {},
        {"x" + PROPERTY: "a:1:2"},
        {PROPERTY: "a:x:2"},
        {PROPERTY: "a:1"},
        {PROPERTY: ":1:2"},
    ):
        assert origin_of(property_text(other).encode()) is None
