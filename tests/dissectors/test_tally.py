from collections.abc import Callable
from pathlib import Path

import pytest

from hsa.capture.files import open_traces
from hsa.dissectors.driver import Driver

PAPER = Path(__file__).parents[2] / "fixtures" / "paper" / "s1.a2a.local.pcap"


@pytest.fixture(scope="module")
def driver() -> Driver:
    driver = Driver(open_traces([PAPER]))
    for _ in driver:
        pass
    return driver


def test_without_a_filter_it_counts_what_was_counted(driver: Driver) -> None:
    assert driver.streams.tally((), None) == driver.streams.counts


def test_only_connections_with_the_port(driver: Driver) -> None:
    # tshark -Y 'tcp.port==9300' -T fields -e tcp.stream | sort -u: 31 streams, 14 of them refused, 1 without payload
    counts = driver.streams.tally((9300,), None)
    assert counts == {"tcp": 31, "failed": 14, "empty": 1, "http": 16}


@pytest.mark.parametrize(("host", "streams"), [(lambda a: a == "127.0.0.1", 39), (lambda a: a == "192.0.2.1", 0)])
def test_only_connections_with_the_address(driver: Driver, host: Callable[[str], bool], streams: int) -> None:
    assert driver.streams.tally((), host)["tcp"] == streams
