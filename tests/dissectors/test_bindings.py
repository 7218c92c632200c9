"""What is remembered is bounded; hosts by any of their names."""

from __future__ import annotations

import pytest

from hsa.dissectors.bindings import Table, host_of, hosts_of
from hsa.dissectors.view import View
from tests.dissectors.exchanges import get


def test_tables_are_bounded() -> None:
    table: Table[int, int] = Table(limit=3)
    for key in range(10):
        table.put(key, key)
    assert (len(table), table.forgotten, table.get(0), table.get(9)) == (3, 7, None, 9)
    table.put(9, 1)
    assert (len(table), table.get(9)) == (3, 1)


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://A.example:8443/x", "a.example:8443"),
        ("https://user:secret@a.example/x", "a.example"),
        ("/relative", ""),
        ("http://[bad", ""),
        ("", ""),
    ],
)
def test_hosts_of_urls(url: str, host: str) -> None:
    assert host_of(url) == host


def test_a_server_is_known_by_name_and_by_address() -> None:
    assert hosts_of(View(get("/x"))) == ("agent.example:8000", "192.0.2.10:8000")
