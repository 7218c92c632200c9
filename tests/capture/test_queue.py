"""The queue of a link on a clock that the test turns."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa.capture.links.queue import PacketQueue, Shape

MS = 1_000_000


@dataclass
class Out:
    """A packet that came out: when, and its number."""

    t_ns: int
    number: int


def run(shape: Shape, arrivals: list[tuple[int, int]], seed: int = 0) -> tuple[list[Out], PacketQueue]:
    """Feed packets (time in ns, length) that carry their numbers; what comes out, each at the moment it is due."""
    queue = PacketQueue(shape, seed)
    out: list[Out] = []

    def until(end_ns: int | None) -> None:
        now = out[-1].t_ns if out else 0
        while (wait := queue.wait(now)) is not None and (end_ns is None or now + wait <= end_ns):
            now += wait
            assert queue.pending(now)
            out.extend(Out(now, int.from_bytes(packet[:4], "big")) for packet in queue.write(now))

    for number, (t_ns, length) in enumerate(arrivals):
        until(t_ns)
        queue.read(number.to_bytes(4, "big") + bytes(length - 4), t_ns)
    until(None)
    assert queue.finished()
    assert list(queue.write(10**18)) == []
    return out, queue


arrivals = st.lists(st.tuples(st.integers(0, 20 * MS), st.integers(40, 1500)), max_size=60).map(sorted)


@given(arrivals, st.integers(0, 100 * MS))
def test_delay_is_exact_and_nothing_is_lost(packets: list[tuple[int, int]], delay_ns: int) -> None:
    out, queue = run(Shape(delay_ns=delay_ns), packets)
    assert [each.number for each in out] == list(range(len(packets)))
    assert [each.t_ns for each in out] == [t_ns + delay_ns for t_ns, _ in packets]
    assert (queue.count.read, queue.count.written, queue.count.lost, queue.count.dropped) == (len(out), len(out), 0, 0)


@given(arrivals, st.integers(0, 50 * MS), st.floats(1e5, 1e9), st.integers(0, 1000))
def test_jitter_keeps_order_and_bounds(packets: list[tuple[int, int]], delay_ns: int, rate: float, seed: int) -> None:
    out, _ = run(Shape(delay_ns=delay_ns, jitter_ns=delay_ns // 2, rate_bps=rate, room=10**6), packets, seed)
    assert [each.number for each in out] == list(range(len(packets)))
    for each, (t_ns, length) in zip(out, packets, strict=True):
        assert each.t_ns >= t_ns + delay_ns - delay_ns // 2 + int(length * 8e9 / rate) - 1


@given(st.lists(st.integers(40, 1500), min_size=1, max_size=60), st.floats(1e5, 1e9), st.integers(0, 50 * MS))
def test_rate_is_kept(lengths: list[int], rate: float, delay_ns: int) -> None:
    """A burst leaves at the rate: each packet after all bits before it and its own."""
    out, _ = run(Shape(delay_ns=delay_ns, rate_bps=rate), [(0, length) for length in lengths])
    sent = 0
    for each, length in zip(out, lengths, strict=True):
        sent += length
        assert each.t_ns - delay_ns == pytest.approx(sent * 8e9 / rate, abs=len(lengths))


def test_idle_link_saves_up_nothing() -> None:
    out, _ = run(Shape(rate_bps=8e6), [(0, 1000), (100 * MS, 1000)])
    assert [each.t_ns for each in out] == [MS, 101 * MS]


def test_full_room_drops_the_last() -> None:
    out, queue = run(Shape(rate_bps=8e6, room=3), [(0, 1000)] * 5 + [(10 * MS, 1000)])
    assert [each.number for each in out] == [0, 1, 2, 5]
    assert queue.count.dropped == 2


@pytest.mark.parametrize("loss", [0.0, 0.005, 0.2, 1.0])
def test_share_lost(loss: float) -> None:
    n = 20_000
    out, queue = run(Shape(loss=loss), [(i, 40) for i in range(n)], seed=7)
    assert len(out) + queue.count.lost == n
    assert abs(queue.count.lost - loss * n) <= 4 * (n * loss * (1 - loss)) ** 0.5
    assert [each.number for each in out] == sorted(each.number for each in out)


def test_seed_decides() -> None:
    packets = [(i * MS, 100) for i in range(200)]
    shape = Shape(delay_ns=5 * MS, loss=0.1, jitter_ns=MS, reorder=0.1)
    assert run(shape, packets, 1)[0] == run(shape, packets, 1)[0] != run(shape, packets, 2)[0]


def test_one_trouble_does_not_change_another() -> None:
    packets = [(i * MS, 100) for i in range(500)]
    alone = {each.number for each in run(Shape(loss=0.1), packets)[0]}
    assert {
        each.number for each in run(Shape(delay_ns=20 * MS, loss=0.1, jitter_ns=MS, reorder=0.3), packets)[0]
    } == alone


def test_reordered_are_overtaken() -> None:
    n = 5000
    out, queue = run(Shape(delay_ns=8 * MS, reorder=0.1), [(i * MS, 100) for i in range(n)])
    assert sorted(each.number for each in out) == list(range(n))
    late = [each for each in out if each.t_ns != each.number * MS + 8 * MS]
    assert len(late) == queue.count.held_back == pytest.approx(0.1 * n, abs=100)
    assert all(each.t_ns == each.number * MS + 10 * MS for each in late)
    assert [each.number for each in out] != sorted(each.number for each in out)
