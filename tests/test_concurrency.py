"""Many clients at once: behind one address, and through a reverse proxy that pools its connections.

Who sent what is known from the clients' own books, and behind the proxy from its access log joined with the
counterpart's count (`pool` in the truth file).
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from hsa.capture.generate import truth
from hsa.capture.generate.cells import CELLS, CROWD
from hsa.capture.generate.play import Setting, missing, play
from tests.joining import Joined, Place, join, wrongly_joined
from tests.needs import need, need_tool

RECORDED = Path(__file__).parents[1] / "fixtures" / "recorded"
ROUND_TRIPS = {"legacy": 3, "modern": 2}
MOST_WRONG = 0.15
"""Share of exchanges that may be joined wrongly behind the pool. First come, first served gets 3 of 120 wrong."""
POOLED = ["pooled.mcp-modern", "pooled.a2a", "pooled.a2a-again"]


def owners(document: dict[str, Any]) -> dict[Place, int]:
    """Which client (index in `each`) sent the exchange at a place on the leg of the clients."""
    return {
        (document["port"], request["port"], request["ordinal"]): client
        for client, run in enumerate(document["each"])
        for request in run["requests"]
    }


def owners_behind(document: dict[str, Any]) -> dict[Place, int]:
    """The same on the leg between proxy and counterpart."""
    port = document["back_port"]
    return {(port, row["back"]["port"], row["back"]["ordinal"]): row["client"] for row in document["pool"]}


@pytest.mark.parametrize("cell", ["crowd.mcp-legacy", "crowd.mcp-mixed"])
def test_crowd_behind_one_address(cell: str) -> None:
    document = truth.load(RECORDED / f"{cell}.truth.json")
    joined = join([RECORDED / document["files"][0]])
    owner = owners(document)
    assert joined.count == CROWD
    assert joined.exchanges.keys() == owner.keys()
    assert wrongly_joined(joined, owner) == {}
    assert sorted(place for places in joined.places.values() for place in places) == sorted(owner)
    for handshake in joined.handshakes:
        run = document["each"][owner[joined.places[handshake.id][0]]]
        assert handshake.era == run["era"]
        assert handshake.outcome == "ready"
        assert handshake.round_trips == run["round_trips"] == ROUND_TRIPS[run["era"]]
        assert handshake.connections == run["connections"]
        assert handshake.bytes_up == run["bytes_up"]
    assert Counter(handshake.era for handshake in joined.handshakes) == Counter(run["era"] for run in document["each"])


def hold_front(joined: Joined, document: dict[str, Any]) -> None:
    """Towards the clients each has a connection of its own: all is right and certain."""
    owner = owners(document)
    assert joined.count == len(document["each"])
    assert wrongly_joined(joined, owner) == {}
    for handshake in joined.handshakes:
        run = document["each"][owner[joined.places[handshake.id][0]]]
        assert (handshake.outcome, handshake.round_trips) == ("ready", run["round_trips"])
        assert (handshake.bytes_up, handshake.bytes_down) == (run["bytes_up"], run["bytes_down"])
        assert len(joined.places[handshake.id]) == len(run["requests"])


def hold_back(joined: Joined, document: dict[str, Any], record: Any) -> int:
    """Towards the counterpart nothing tells the clients apart: joins may be wrong, but no unsure one is called exact.

    Gives the number of wrongly joined exchanges.
    """
    owner = owners_behind(document)
    assert joined.exchanges.keys() == owner.keys()
    users: dict[int, set[int]] = defaultdict(set)
    for (_, port, _), client in owner.items():
        users[port].add(client)
    wrong = wrongly_joined(joined, owner)
    count = sum(len(places) for places in wrong.values())
    record("exchanges", len(owner))
    record("wrongly_joined", count)
    attribution = {handshake.id: handshake.attribution for handshake in joined.handshakes}
    for number, places in joined.places.items():
        ports = {port for _, port, _ in places}
        if number in wrong or len(ports) > 1 or any(len(users[port]) > 1 for port in ports):
            assert attribution[number] == "inferred"
    cold = [handshake for handshake in joined.handshakes if not handshake.warm]
    assert len(cold) == len(document["each"])
    return count


@pytest.mark.parametrize("cell", POOLED)
def test_in_front_of_the_pool(cell: str) -> None:
    document = truth.load(RECORDED / f"{cell}.truth.json")
    hold_front(join([RECORDED / document["files"][0]]), document)


@pytest.mark.parametrize("cell", POOLED)
def test_behind_the_pool(cell: str, record_property: Any) -> None:
    document = truth.load(RECORDED / f"{cell}.truth.json")
    hold_back(join([RECORDED / document["files"][1]]), document, record_property)


@pytest.mark.parametrize("cell", POOLED)
def test_both_sides_of_the_pool(cell: str, record_property: Any) -> None:
    """In one analysis: as many sessions as clients, and none that is wrong on either side is called exact."""
    document = truth.load(RECORDED / f"{cell}.truth.json")
    joined = join([RECORDED / file for file in document["files"]])
    owner = owners(document) | owners_behind(document)
    wrong = wrongly_joined(joined, owner)
    record_property("exchanges", len(owner))
    record_property("wrongly_joined", sum(len(places) for places in wrong.values()))
    assert joined.exchanges.keys() == owner.keys()
    assert joined.count == len(document["each"])
    for handshake in joined.handshakes:
        if handshake.id in wrong:
            assert handshake.attribution == "inferred"
        front = [place for place in joined.places[handshake.id] if place[0] == document["port"]]
        assert len({owner[place] for place in front}) == 1
        assert len(handshake.hops) == 2


@pytest.mark.parametrize("cell", [cell for cell in POOLED if not cell.endswith("-again")])
def test_most_joins_behind_the_pool_are_right(cell: str) -> None:
    """Where some connection shows that it is shared (in the other recording none does before it is too late)."""
    document = truth.load(RECORDED / f"{cell}.truth.json")
    joined = join([RECORDED / document["files"][1]])
    assert hold_back(joined, document, lambda *_: None) <= MOST_WRONG * len(document["pool"])


@pytest.mark.sdk
@pytest.mark.parametrize("cell", ["pooled.mcp-modern", pytest.param("pooled.a2a", marks=pytest.mark.slow)])
def test_live_pool(cell: str, tmp_path: Path, record_property: Any) -> None:
    need(not missing([CELLS[cell]]), "the SDKs (pip install 'hsa[sdk]')")
    need(os.geteuid() == 0, "the right to record packets (root)")
    need_tool("nginx", "nginx-light")
    recording = play(CELLS[cell], tmp_path, Setting())
    document = recording.document
    assert len(document["each"]) == CROWD
    assert document["made"]["dropped"] == 0
    hold_front(join([recording.files[0]]), document)
    hold_back(join([recording.files[1]]), document, record_property)
