from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from hsa.analysis.timing import (
    bytes_to_answer,
    chain,
    covered_ns,
    halves_ms,
    network_round_trips,
    outstanding,
    slow_start_rounds,
    user_wait_ms,
    vantage,
)
from hsa.dissectors.reading import Role
from tests.analysis.build import MS, connection, exchange

spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=9)


@given(spans)
def test_chain_is_the_longest_by_trying_all(pairs: list[tuple[int, int]]) -> None:
    steps = [exchange(start, start + length) for start, length in pairs]
    ends = [(start, start + length) for start, length in pairs]

    def follows(order: tuple[tuple[int, int], ...]) -> bool:
        return all(a[1] <= b[0] for a, b in pairwise(order))

    longest = 0
    for size in range(len(ends) + 1):
        if any(follows(tuple(sorted(c))) for c in combinations(ends, size)):
            longest = size
    assert len(chain(steps)) == longest


@given(spans)
def test_covered_counts_each_moment_once(pairs: list[tuple[int, int]]) -> None:
    moments = {t for start, length in pairs for t in range(start, start + length)}
    assert covered_ns([(start, start + length) for start, length in pairs]) == len(moments)


def test_spans_that_end_before_they_begin_are_empty() -> None:
    assert covered_ns([(10, 5), (20, 25)]) == 5


def test_slow_start_doubles_the_window_each_round() -> None:
    assert slow_start_rounds([14_600]) == 0
    assert slow_start_rounds([14_601]) == 1
    assert slow_start_rounds([14_600 + 29_200]) == 1
    assert slow_start_rounds([14_600 + 29_200 + 1]) == 2
    assert slow_start_rounds([14_600 * 3, 14_600 * 2]) == 1, "the window stays open for the next answer"


def test_network_round_trips_add_one_for_each_connection_opened() -> None:
    links = [connection(n) for n in range(3)]
    steps = [exchange(n * 10, n * 10 + 5, link=link) for n, link in enumerate(links)]
    assert network_round_trips(steps, links) == 6
    assert network_round_trips(steps, links[:1]) == 4


def test_vantage_is_where_the_short_half_is() -> None:
    assert vantage(0.02, 50.0, False) == "client"
    assert vantage(50.0, 0.02, False) == "server"
    assert vantage(20.0, 30.0, False) == "between"
    assert vantage(None, 30.0, False) == "unknown"
    assert vantage(0.02, 0.01, True) == "client"


def test_of_a_stream_slow_start_pays_for_the_bytes_to_its_answer_only() -> None:
    stream = exchange(0, 5, "GET endpoint", standing=True, bytes_down=1_000_000)
    stream.marks = [(5 * MS, 200), (50 * MS, 1_000_000)]
    assert bytes_to_answer(stream) == 200


def test_user_wait_ends_with_the_token_request_and_starts_with_the_last_answer_to_the_client() -> None:
    steps = [
        exchange(0, 5, ok=False),
        exchange(6, 10, "authorization-server-metadata", role=Role.AUTH),
        exchange(2000, 24_990, "authorize", role=Role.AUTH),
        exchange(25_010, 25_020, "token", role=Role.AUTH),
    ]
    assert user_wait_ms(steps) == 25_000
    assert user_wait_ms(steps[:2]) is None
    reading = steps[3].reading
    assert reading is not None
    reading.subject = "refresh_token"
    assert user_wait_ms(steps) is None, "no person is asked for a refresh"


def test_outstanding_leaves_out_silence_and_the_browser() -> None:
    steps = [exchange(10, 20), exchange(30, None, given_up=45 * MS), exchange(50, 90, "authorize", role=Role.AUTH)]
    spans = outstanding(steps, [(0, 4 * MS)], 0, 60 * MS)
    assert covered_ns(spans) == (10 + 15 + 4) * MS


def test_an_unanswered_request_is_outstanding_until_the_end() -> None:
    assert covered_ns(outstanding([exchange(30, None)], [], 0, 60 * MS)) == 30 * MS


def test_halves_come_from_the_three_packets_of_the_tcp_handshake() -> None:
    one = connection(syn_ns=0, syn_ack_ns=8 * MS, established_ns=8 * MS + MS // 2, syns=1)
    repeated = connection(syn_ns=0, syn_ack_ns=1000 * MS, established_ns=1001 * MS, syns=2)
    assert halves_ms([one, repeated]) == (0.5, 8.0)
    assert halves_ms([repeated]) == (None, None)
