"""Plans over links, against what the specifications say by hand."""

from __future__ import annotations

import pytest

from hsa.replay.link import Link
from hsa.replay.simulate import play
from tests.replay.build import MS, Made, one_exchange


def total_ms(plan, link: Link, **how) -> float:  # type: ignore[no-untyped-def]
    played = play(plan, link, **how)
    assert sum(played.parts_ns.values()) == played.total_ns
    return played.total_ns / MS


def test_a_path_charges_a_round_trip_for_opening_and_one_for_the_exchange() -> None:
    played = play(one_exchange(), Link(rtt_ms=50))
    assert played.total_ns == 103 * MS
    assert played.parts_ns == {
        "connect": 50 * MS,
        "tls": 0,
        "network": 50 * MS,
        "server": 2 * MS,
        "client": 1 * MS,
    }


def test_a_relay_opens_at_once_and_holds_back_each_chunk() -> None:
    late = 2 * 0.5
    assert total_ms(one_exchange(), Link("relay", rtt_ms=50)) == pytest.approx(53 + late)


def test_head_and_body_are_two_chunks_for_a_relay_unless_it_reads_late() -> None:
    made = Made()
    line = made.line()
    head = made.up(line, 200, made.open(line))
    body = made.up(line, 100, head, pause=0.1)
    plan = made.ends(made.down(line, 300, body))
    apart, together = (
        total_ms(plan, Link("relay", rtt_ms=50)),
        total_ms(plan, Link("relay", rtt_ms=50), reactions_ns=(MS, MS)),
    )
    assert apart == pytest.approx(76.5)
    assert together == pytest.approx(51.1)


@pytest.mark.parametrize(
    ("size", "rounds"),
    [(1448 * 10, 0), (1448 * 10 + 1, 1), (1448 * 30, 1), (1448 * 30 + 1, 2), (1448 * 70, 2), (1448 * 70 + 1, 3)],
)
def test_slow_start_doubles_the_window_each_round_trip(size: int, rounds: int) -> None:
    """10, 20, 40 segments (RFC 6928, RFC 5681 section 3.1)."""
    assert total_ms(one_exchange(size), Link(rtt_ms=50)) == pytest.approx(103 + 50 * rounds)


def test_a_larger_initial_window_saves_rounds() -> None:
    assert total_ms(one_exchange(1448 * 30), Link(rtt_ms=50, initcwnd=30)) == pytest.approx(103)


def test_a_small_mtu_needs_more_segments() -> None:
    assert total_ms(one_exchange(1448 * 10), Link(rtt_ms=50, mtu=576)) > total_ms(
        one_exchange(1448 * 10), Link(rtt_ms=50)
    )


def test_a_thin_link_sends_one_byte_after_the_other() -> None:
    """SYN and SYN-ACK 60 B, request 252 B, answer 552 B at 1 Mbit/s: 8 us a byte."""
    assert total_ms(one_exchange(), Link(rtt_ms=0, bandwidth_mbps=1)) == pytest.approx(
        3 + (60 + 60 + 252 + 552) * 0.008
    )


def test_bandwidth_bounds_a_large_answer() -> None:
    seconds = 1_000_000 * 8 / 10e6
    assert total_ms(one_exchange(1_000_000), Link(rtt_ms=10, bandwidth_mbps=10)) == pytest.approx(
        1000 * seconds, rel=0.1
    )


def test_a_lost_syn_costs_a_second() -> None:
    """Some draw loses the SYN or its answer (RFC 6298 section 2.1)."""
    totals = {round(play(one_exchange(), Link(rtt_ms=50, loss=0.2), seed=seed).total_ns / MS) for seed in range(200)}
    assert 103 in totals
    assert 1103 in totals
    assert min(totals) == 103


def test_a_lost_answer_costs_a_retransmission_timeout() -> None:
    """One segment under way: the round-trip time and 200 ms more (TCP_RTO_MIN)."""
    totals = [play(one_exchange(), Link(rtt_ms=50, loss=0.1), seed=seed).total_ns / MS for seed in range(300)]
    assert any(total == pytest.approx(103 + 250) for total in totals)


def test_the_mean_under_loss_grows_with_it() -> None:
    def mean(loss: float) -> float:
        return sum(play(one_exchange(), Link(rtt_ms=50, loss=loss), seed=s).total_ns for s in range(400)) / 400 / MS

    assert 103 < mean(0.01) < mean(0.05) < mean(0.2)


def test_every_loss_ends() -> None:
    for seed in range(50):
        assert play(one_exchange(60_000), Link(rtt_ms=20, loss=0.3), seed=seed).total_ns > 0


def test_what_goes_at_once_is_charged_once() -> None:
    made = Made()
    ends = []
    for _ in range(3):
        line = made.line()
        ends.append(made.down(line, 500, made.up(line, 200, made.open(line)), pause=2))
    assert total_ms(made.ends(*ends), Link(rtt_ms=50)) == pytest.approx(102)


def test_without_an_unproven_wait_it_is_quicker() -> None:
    made = Made()
    first, second = made.line(), made.line()
    answer = made.down(first, 500, made.up(first, 200, made.open(first)))
    opened = made.open(second, answer, pause=3)
    made.plan.steps[opened].free = ((), 5 * MS)
    plan = made.ends(made.down(second, 500, made.up(second, 200, opened)))
    assert total_ms(plan, Link(rtt_ms=50)) == pytest.approx(203)
    assert total_ms(plan, Link(rtt_ms=50), loose=True) == pytest.approx(105)


def test_bbr_paces_what_cubic_sends_at_once() -> None:
    cubic, bbr = (total_ms(one_exchange(1448 * 30), Link(rtt_ms=50, congestion=name)) for name in ("cubic", "bbr"))
    assert cubic < bbr < cubic + 50
