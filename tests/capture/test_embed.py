"""Recordings over TLS carry their secrets: tshark, told nothing else, reads the requests that clients tell."""

from __future__ import annotations

import os
import ssl
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hsa.capture.generate import certificate, truth
from hsa.capture.generate.cells import CELLS
from hsa.capture.generate.embed import embed
from hsa.capture.generate.play import Setting, missing, play
from hsa.capture.links.link import Link
from tests.needs import need, need_tool

RECORDED = Path(__file__).parents[2] / "fixtures" / "recorded"
UNDER_TLS = [file for file in sorted(RECORDED.glob("*.truth.json")) if truth.load(file).get("tls")]


def need_recording() -> None:
    need(not missing(list(CELLS.values())), "the SDKs (pip install 'hsa[sdk]')")
    need(os.geteuid() == 0, "the right to record packets (root)")
    need_tool("tshark", "tshark")


def tshark(file: Path, show: str, fields: list[str], *more: str) -> list[tuple[str, ...]]:
    command = ["tshark", "-r", str(file), "-Y", show, "-T", "fields", "-E", "occurrence=a", *more]
    command += [word for field in fields for word in ("-e", field)]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = []
    for line in said.stdout.splitlines():
        rows += list(zip(*(cell.split(",") for cell in line.split("\t")), strict=True))
    return rows


def booked(document: dict[str, Any]) -> Counter[tuple[str, ...]]:
    return Counter((request["method"], request["path"]) for run in document["each"] for request in run["requests"])


def record(name: str, folder: Path, link: Link | None = None) -> tuple[Path, dict[str, Any]]:
    recording = play(CELLS[name], folder, Setting(runs=2, warmups=0, link=link or Link()))
    assert [run["outcome"] for run in recording.document["each"]] == ["ready", "ready"]
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        [*recording.document["files"], f"{name}.truth.json"]
    )
    return recording.files[0], recording.document


@pytest.mark.sdk
def test_tls_recording_is_read_by_tshark(tmp_path: Path) -> None:
    need_recording()
    file, document = record("tls.mcp-legacy", tmp_path)
    assert file.name == "tls.mcp-legacy.pcapng"
    port = document["port"]
    told = ["-d", f"tcp.port=={port},tls", "-d", f"tls.port=={port},http"]
    seen = tshark(file, "http.request", ["http.request.method", "http.request.uri"], *told)
    assert Counter(seen) == booked(document)
    fields = ["tls.handshake.extensions.supported_version"]
    assert {version for (version,) in tshark(file, "tls.handshake.type == 2", fields, *told)} == {"0x0304"}
    for contact in document["each"]:
        assert all(each["opened_ns"] < each["secured_ns"] for each in contact["tcp"])


@pytest.mark.sdk
def test_http2_recording_is_read_by_tshark(tmp_path: Path) -> None:
    need_recording()
    file, document = record("h2.mcp-modern", tmp_path)
    told = ["-d", f"tcp.port=={document['port']},tls"]
    seen = tshark(file, "http2.headers.method", ["http2.headers.method", "http2.headers.path"], *told)
    assert Counter(seen) == booked(document)
    (group,) = document["groups"]
    assert (group["round_trips"], group["connections"], group["bytes_up"], group["bytes_down"]) == (2, 1, None, None)


@pytest.mark.sdk
def test_authorization_is_recorded(tmp_path: Path) -> None:
    """The whole flow, as the SDK makes it; the browser's request is on the wire and in nobody's books."""
    need_recording()
    file, document = record("oauth.mcp-modern", tmp_path, Link("relay", 4))
    requests = tshark(file, "http.request", ["http.request.method", "http.request.uri"])
    seen = Counter((method, uri.partition("?")[0]) for method, uri in requests)
    extra = seen - booked(document)
    assert extra == Counter({("GET", "/authorize"): 2})
    assert booked(document) - seen == Counter()
    (group,) = document["groups"]
    assert (group["round_trips"], group["retries"], group["phases"]) == (7, 1, {"session": 5, "capability": 2})


@pytest.mark.sdk
def test_grpc_binding_is_recorded(tmp_path: Path) -> None:
    need_recording()
    file, document = record("binding.a2a-grpc", tmp_path)
    assert document["groups"][0]["tasks"] is None
    assert Counter(tshark(file, "http.request", ["http.request.method", "http.request.uri"])) == booked(document)
    port = document["back_port"]
    calls = tshark(file, "http2.headers.path", ["http2.headers.path"], "-d", f"tcp.port=={port},http2")
    assert calls == [("/lf.a2a.v1.A2AService/SendMessage",)] * 2


@pytest.mark.sdk
def test_rest_binding_is_recorded(tmp_path: Path) -> None:
    need_recording()
    file, document = record("binding.a2a-rest", tmp_path)
    seen = tshark(file, "http.request", ["http.request.method", "http.request.uri"])
    assert Counter(seen) == booked(document)
    assert ("POST", "/message:send") in seen
    assert document["groups"][0]["tasks"] == 1


@pytest.mark.parametrize("file", UNDER_TLS, ids=lambda file: file.name.removesuffix(".truth.json"))
def test_recorded_truth_agrees_with_the_packets_under_tls(file: Path) -> None:
    need_tool("tshark", "tshark")
    document = truth.load(file)
    assert document["made"]["dropped"] == 0
    layer = "http2.headers" if document["http2"] else "http.request"
    names = ("method", "path") if document["http2"] else ("method", "uri")
    shown = f"{layer}.method" if document["http2"] else layer
    rows = tshark(RECORDED / document["files"][0], shown, [f"{layer}.{name}" for name in names])
    seen = Counter((method, path.partition("?")[0]) for method, path in rows)
    assert booked(document) - seen == Counter()
    assert set(seen - booked(document)) <= ({("GET", "/authorize")} if document["oauth"] else set())
    for contact in document["each"]:
        for each in contact["tcp"]:
            assert contact["start_ns"] <= each["opened_ns"] < each["secured_ns"] <= contact["end_ns"]


def test_embedding_keeps_every_packet(tmp_path: Path) -> None:
    need_tool("tshark", "tshark")
    plain, whole = RECORDED / "s1.a2a.pcap", tmp_path / "x.pcapng"
    embed(plain, b"CLIENT_RANDOM 00 11\n", whole)
    fields = ["frame.time_epoch", "frame.len", "frame.cap_len", "tcp.seq_raw", "tcp.checksum"]
    assert tshark(whole, "frame", fields) == tshark(plain, "frame", fields) != []
    assert b"CLIENT_RANDOM 00 11\n" in whole.read_bytes()
    with pytest.raises(FileExistsError):
        embed(plain, b"", whole)
    (tmp_path / "no.pcap").write_text("no capture")
    with pytest.raises(ValueError):
        embed(tmp_path / "no.pcap", b"", tmp_path / "y.pcapng")


def test_certificate_is_good_for_its_address_only(tmp_path: Path) -> None:
    authority, counterpart = certificate.make(tmp_path, "127.0.0.1")
    assert counterpart.stat().st_mode & 0o077 == 0
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_side.load_cert_chain(counterpart)
    client_side = ssl.create_default_context(cafile=str(authority))
    client_side.verify_flags |= ssl.VERIFY_X509_STRICT

    def shake(name: str) -> None:
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = client_side.wrap_bio(to_client, to_server, server_hostname=name)
        server = server_side.wrap_bio(to_server, to_client, server_side=True)
        for _ in range(3):
            for side in (client, server):
                try:
                    side.do_handshake()
                except ssl.SSLWantReadError:
                    continue

    shake("127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake("10.0.0.1")
