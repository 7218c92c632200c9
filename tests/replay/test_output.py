"""The JSON of predictions: the contract's members in their order, the committed schema."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from hsa.analysis.redact import Door
from hsa.replay.link import Link
from hsa.replay.output import Point, replay_json
from hsa.replay.policies import NAMED, all_of, tls
from hsa.replay.predict import groups, predict, slopes
from tests.replay.build import ROOT, recording

SCHEMA = json.loads((ROOT / "replay" / "schema" / "replay-v1.json").read_text())
CONTRACT = ["id", "protocol", "era", "observed_ms", "predicted_ms", "low", "high", "parts"]


def shown(name: str, *links: Link, change: Any = None) -> dict[str, Any]:
    points = [Point(link, predict(recording(name).sessions, link, change)) for link in links]
    lines = slopes([(point.link, groups(point.predictions)) for point in points])
    cleaned: dict[str, Any] = json.loads(json.dumps(Door(b"k").clean(replay_json(points, lines))))
    return cleaned


def test_members_are_the_contracts() -> None:
    found = shown("recorded/s1.mcp-legacy.pcap", Link(rtt_ms=50))
    assert list(found) == ["schema", "link", "handshakes", "groups"]
    assert found["schema"] == "hsa/replay/v1"
    assert list(found["link"])[:6] == ["kind", "rtt_ms", "bandwidth_mbps", "loss", "mtu", "initcwnd"]
    for handshake in found["handshakes"]:
        assert list(handshake)[: len(CONTRACT)] == CONTRACT
        assert list(handshake["parts"]) == ["connect_ms", "tls_ms", "network_ms", "server_ms", "client_ms"]


@pytest.mark.parametrize("name", ["recorded", "paper", "foreign", "cases/case11a.pcap"])
def test_it_fits_its_schema_and_the_rounded_parts_add_up(name: str) -> None:
    if not (ROOT / "fixtures" / name).exists():
        pytest.skip("not there")
    found = shown(name, Link(rtt_ms=33.3))
    jsonschema.validate(found, SCHEMA)
    for row in [*found["handshakes"], *found["groups"]]:
        if row["predicted_ms"] is not None:
            assert sum(row["parts"].values()) == pytest.approx(row["predicted_ms"], abs=1e-6)


def test_a_sweep_and_policies_fit_it_too() -> None:
    links = [Link("relay", rtt_ms=rtt) for rtt in (0.0, 50.0)]
    change = all_of([NAMED["reuse-connections"], NAMED["cache-metadata"], tls("1.3")])
    found = shown("recorded/s1.mcp-legacy.pcap", *links, change=change)
    jsonschema.validate(found, SCHEMA)
    assert [point["link"]["rtt_ms"] for point in found["sweep"]] == [0, 50]
    assert len(found["slopes"]) == 1
    assert found["sweep"][0]["handshakes"][0]["changes"]
