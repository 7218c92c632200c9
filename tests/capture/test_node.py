"""Clients of the SDKs for Node: their books against the packets."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hsa.capture.generate import node, sdks
from hsa.capture.generate.cells import CELLS
from hsa.capture.generate.play import Setting, missing, play
from hsa.capture.generate.processes import PlayFailed
from hsa.capture.links.link import Link
from tests.capture.test_generate import hold_against_wire
from tests.needs import need


def need_node() -> None:
    need(not missing(list(CELLS.values())), "the SDKs (pip install 'hsa[sdk]')")
    need(os.geteuid() == 0, "the right to record packets (root)")
    need(shutil.which("node") is not None and shutil.which("npm") is not None, "node and npm")
    try:
        node.command()
    except sdks.NoEnvironment as error:
        need(False, f"the SDKs for Node ({error})")


@pytest.mark.sdk
@pytest.mark.parametrize(
    ("name", "link", "round_trips", "phases"),
    [
        ("node.mcp-legacy", Link(), 3, {"session": 1, "readiness": 1, "capability": 1}),
        ("node.mcp-modern", Link("path", 10), 2, {"capability": 2}),
        ("node.a2a", Link(), 1, {"discovery": 1}),
    ],
)
def test_books_of_node_agree_with_the_packets(
    name: str, link: Link, round_trips: int, phases: dict[str, int], tmp_path: Path
) -> None:
    need_node()
    document = play(CELLS[name], tmp_path, Setting(runs=2, warmups=1, link=link)).document
    (group,) = document["groups"]
    assert (group["outcome"], group["round_trips"], group["phases"]) == ("ready", round_trips, phases)
    assert [contact["task"] for contact in document["each"]] == ["ok"] * 3
    assert document["made"]["client"].keys() == {"node", "@modelcontextprotocol/client", "@a2a-js/sdk"}
    hold_against_wire(document, tmp_path)
    for contact in document["each"]:
        for request in contact["requests"]:
            assert contact["start_ns"] <= request["start_ns"] <= min(request["headers_ns"], request["end_ns"])
            assert 0 < request["head_bytes"] <= request["bytes_down"] - request["body_bytes"]


def test_node_client_has_no_relay(tmp_path: Path) -> None:
    with pytest.raises(PlayFailed, match="has no relay"):
        play(CELLS["node.a2a"], tmp_path, Setting(link=Link("relay", 5)))


def test_missing_node_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(sdks.NoEnvironment, match="node is not installed"):
        node.command()


def test_packages_that_cannot_be_installed_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    need(shutil.which("node") is not None and shutil.which("npm") is not None, "node and npm")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(node, "PACKAGES", (f"file:{tmp_path}/nothing-here.tgz",))
    with pytest.raises(sdks.NoEnvironment, match="npm cannot install"):
        node.command()
    assert list(sdks.cache_folder().iterdir()) == []
