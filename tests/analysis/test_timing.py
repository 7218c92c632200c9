from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from hsa.analysis.timing import chain, covered_ns, network_round_trips, slow_start_rounds, vantage
from tests.analysis.build import connection, exchange

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
