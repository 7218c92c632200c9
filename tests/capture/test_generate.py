"""Recordings of the SDKs: what the clients wrote down is what is on the wire, and nothing is left behind."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hsa.capture.generate import proxy, sniffer, truth
from hsa.capture.generate.cells import CELLS, Cell, select
from hsa.capture.generate.faults import Faulty
from hsa.capture.generate.groups import GROUPS
from hsa.capture.generate.ledger import Ledger
from hsa.capture.generate.play import Setting, missing, play
from hsa.capture.generate.sniffer import CannotRecord, sniff
from hsa.capture.links.link import Link
from hsa.cli.capture import capture
from tests import wire
from tests.needs import need

RECORDED = Path(__file__).parents[2] / "fixtures" / "recorded"
TRUTHS = sorted(RECORDED.glob("*.truth.json"))
PLAIN = [file for file in TRUTHS if not truth.load(file).get("tls")]
"""Those under TLS are held against tshark, which is given their secrets (test_embed)."""
LAST_CHUNK = 5
"""`0`, CR LF, CR LF: the end of a chunked stream that the client need not read."""


def need_sdks() -> None:
    need(not missing(list(CELLS.values())), "the SDKs (pip install 'hsa[sdk]')")


def need_packets() -> None:
    need(os.geteuid() == 0, "the right to record packets (root)")


# -- cells -----------------------------------------------------------------------------------------------------------


def test_cells_of_the_paper_are_there() -> None:
    paper = {f"{s}.{p}" for s in ("s1", "s2", "s3", "s4a", "s4b") for p in ("mcp-legacy", "mcp-modern", "a2a", "acp")}
    paper |= {"s2.mcp-pinned", "s2.mcp-modern-nohints", "s4c.mcp-legacy", "s4c.mcp-modern", "s4c.a2a"}
    assert paper <= CELLS.keys()


def test_select_takes_names_scenarios_and_all() -> None:
    assert [cell.name for cell in select(["s1.a2a", "s1.a2a"])] == ["s1.a2a"]
    assert {cell.scenario for cell in select(["s4b", "s3.acp"])} == {"s4b", "s3"}
    assert select(["all"]) == list(CELLS.values())
    with pytest.raises(ValueError, match="no cell 's9'"):
        select(["s1", "s9"])


# -- recordings against their packets --------------------------------------------------------------------------------


def hold_against_wire(document: dict[str, Any], folder: Path) -> None:
    """Every connection and byte of the truth is in the capture, and nothing else but the unread ends of streams."""
    wires = wire.read(folder / document["files"][0], document["port"])
    contacts = document["each"] + ([document["primed_contact"]] if document["primed_contact"] else [])
    booked = {each["port"] for contact in contacts for each in contact["tcp"]}
    wires = {port: seen for port, seen in wires.items() if seen.syn_ns is not None}  # not those to a webhook
    assert booked <= wires.keys() if document.get("oauth") else booked == wires.keys()  # a browser keeps no books
    up: Counter[int] = Counter()
    down: Counter[int] = Counter()
    streams: Counter[int] = Counter()
    for contact in contacts:
        for request in contact["requests"]:
            up[request["port"]] += request["bytes_up"]
            down[request["port"]] += request["bytes_down"]
            streams[request["port"]] += 1
    for port in booked:
        seen = wires[port]
        assert seen.bytes_up == up[port]
        assert seen.bytes_down - down[port] in range(0, LAST_CHUNK * streams[port] + 1, LAST_CHUNK)


@pytest.mark.parametrize("file", PLAIN, ids=lambda file: file.name.removesuffix(".truth.json"))
def test_recorded_truth_agrees_with_the_packets(file: Path) -> None:
    document = truth.load(file)
    assert document["made"]["dropped"] == 0
    hold_against_wire(document, RECORDED)
    for contact in document["each"]:
        assert contact["start_ns"] <= contact["ready_ns"] <= contact["end_ns"]
        for request in contact["requests"]:
            end_ns = request["end_ns"] or contact["end_ns"]
            assert contact["start_ns"] <= request["start_ns"] <= end_ns <= contact["end_ns"]


@pytest.mark.parametrize("file", PLAIN, ids=lambda file: file.name.removesuffix(".truth.json"))
def test_client_clock_agrees_with_the_packets(file: Path) -> None:
    document = truth.load(file)
    wires = wire.read(RECORDED / document["files"][0], document["port"])
    for contact in document["each"]:
        for each in contact["tcp"]:
            assert contact["start_ns"] <= wires[each["port"]].syn_ns <= each["opened_ns"] + 1_000_000


def test_recordings_hold_every_scenario() -> None:
    not_kept = {"sweep", "inventory", "node"}
    assert {file.name.partition(".")[0] for file in TRUTHS} == {cell.scenario for cell in CELLS.values()} - not_kept


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("s1.mcp-legacy", {"era": "legacy", "outcome": "ready", "round_trips": 3, "connections": 3}),
        ("s1.mcp-modern", {"era": "modern", "outcome": "ready", "round_trips": 2, "connections": 1}),
        ("s1.mcp-legacy-sse", {"round_trips": 4, "connections": 2, "streams": 1}),
        ("s1.mcp-legacy-redirect", {"round_trips": 6, "redirects": 3, "retries": 0}),
        (
            "s1.mcp-modern-server1",
            {"era": "legacy", "round_trips": 4, "phases": {"capability": 2, "session": 1, "readiness": 1}},
        ),
        ("s2.mcp-modern", {"round_trips": 1, "phases": {"capability": 1}}),
        ("s2.mcp-modern-nohints", {"round_trips": 2}),
        ("s2.mcp-pinned", {"round_trips": 0, "connections": 0, "bytes_up": [0], "bytes_down": [0]}),
        ("s2.a2a", {"round_trips": 0, "tasks": 1}),
        ("s3.mcp-legacy", {"outcome": "rejected", "round_trips": 3, "tasks": 0}),
        ("s4b.mcp-modern", {"era": "legacy", "outcome": "error", "error": "MCPError", "round_trips": 2}),
        ("s4b.a2a", {"outcome": "error", "error": "AgentCardResolutionError"}),
        ("s4c.mcp-modern", {"outcome": "error", "error": "RuntimeError", "round_trips": 2}),
        ("s4c.mcp-modern-strict", {"era": "modern", "outcome": "error", "error": "MCPError", "round_trips": 1}),
        ("s4c.a2a", {"outcome": "ready", "round_trips": 1, "tasks": 1}),
        ("crowd.mcp-legacy", {"runs": 40, "outcome": "ready", "round_trips": 3}),
    ],
)
def test_recordings_show_what_the_paper_tells(cell: str, expected: dict[str, Any]) -> None:
    """Facts of the paper's tables 2 and 3 and of the protocols' descriptions."""
    (group,) = truth.load(RECORDED / f"{cell}.truth.json")["groups"]
    assert {name: group[name] for name in expected} == expected


def test_pool_was_shared() -> None:
    for name in ("pooled.mcp-modern", "pooled.a2a"):
        document = truth.load(RECORDED / f"{name}.truth.json")
        clients: dict[int, set[int]] = {}
        for row in document["pool"]:
            clients.setdefault(row["back"]["port"], set()).add(row["client"])
        assert max(len(each) for each in clients.values()) > 1
        back = wire.read(RECORDED / document["files"][1], document["back_port"])
        assert back.keys() == clients.keys()


# -- live ------------------------------------------------------------------------------------------------------------


@pytest.mark.sdk
@pytest.mark.parametrize(
    "name", ["s1.mcp-legacy", "s2.a2a", *(pytest.param(x, marks=pytest.mark.slow) for x in ("s1.mcp-modern", "s1.acp"))]
)
def test_play(name: str, tmp_path: Path) -> None:
    need_sdks()
    need_packets()
    steps: list[str] = []
    recording = play(CELLS[name], tmp_path, Setting(runs=1, warmups=0), steps.append)
    assert steps == ["ready"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{name}.pcap", f"{name}.truth.json"]
    assert truth.load(recording.truth_file) == recording.document
    hold_against_wire(recording.document, tmp_path)
    assert recording.document["made"]["client"]["python"].startswith("3.")


@pytest.mark.sdk
def test_sessions_are_resumed_and_documents_compressed(tmp_path: Path) -> None:
    """What no SDK does of itself, as the packets show it."""
    need_packets()
    need_sdks()
    made = play(CELLS["tls.a2a-resumed"], tmp_path, Setting(runs=2, warmups=1))
    shown = [json.loads(line) for line in _exchanges(made.files[0])]
    cards = [each["tls"]["resumed"] for each in shown if each["operation"] == "agent-card"]
    assert cards == [False, True, True]
    sizes = {}
    for name in ("inventory.a2a-50", "inventory.a2a-50-gzip"):
        (group,) = play(CELLS[name], tmp_path, Setting(runs=1, warmups=0)).document["groups"]
        assert group["outcome"] == "ready"
        (sizes[name],) = group["bytes_down"]
    assert sizes["inventory.a2a-50-gzip"] * 4 < sizes["inventory.a2a-50"]


def _exchanges(file: Path) -> list[str]:
    command = [sys.executable, "-m", "hsa.cli.main", "exchanges", str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.sdk
def test_a_scope_that_no_longer_suffices_is_stepped_up(tmp_path: Path) -> None:
    need_packets()
    need_sdks()
    document = play(CELLS["oauth.mcp-modern-step-up"], tmp_path, Setting(runs=1, warmups=0)).document
    (contact,) = document["each"]
    assert (contact["outcome"], contact["task"]) == ("ready", "ok")
    statuses = [request["status"] for request in contact["requests"]]
    assert statuses.count(401) == 1 and statuses.count(403) == 1
    refused = statuses.index(403)
    assert contact["requests"][refused]["operation"] == "tools/call"
    assert any(request["path"] == "/token" for request in contact["requests"][refused:])


@pytest.mark.sdk
def test_slow_counterpart_is_slow(tmp_path: Path) -> None:
    need_sdks()
    need_packets()
    document = play(CELLS["s4a.a2a"], tmp_path, Setting(runs=1, warmups=0, slow_ms=150)).document
    assert 150 <= document["groups"][0]["wire_ms_median"] < 1000


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "s1.a2a.truth.json").write_text("mine")
    result = CliRunner().invoke(capture, ["generate", "s1.a2a", "-o", str(tmp_path)])
    assert result.exit_code == 2
    assert "exists and is not written over" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["s1.a2a.truth.json"]


@pytest.mark.sdk
def test_failed_client_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    need_sdks()
    need_packets()
    impossible = replace(CELLS["s2.a2a"], name="s2.broken", fault="truncated")
    with pytest.raises(RuntimeError, match="the priming contact failed: AgentCardResolutionError"):
        play(impossible, tmp_path, Setting(runs=1, warmups=0))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sdk
def test_counterpart_that_dies_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    """What clients meet then is an error of its own, and not of the cell."""
    need_sdks()
    need_packets()

    def kill(outcome: str) -> None:
        victims = [pid for pid in children(os.getpid()) if command_line(pid).rstrip().endswith("generate counterpart")]
        for pid in victims:
            os.kill(pid, signal.SIGKILL)

    with pytest.raises(RuntimeError, match="counterpart process failed"):
        play(CELLS["s1.a2a"], tmp_path, Setting(runs=3, warmups=0), kill)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.sdk
def test_taken_port_is_told(tmp_path: Path) -> None:
    need_sdks()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        setting = Setting(runs=1, port=taken.getsockname()[1])
        with pytest.raises(RuntimeError, match=r"counterpart process failed: .*in use"):
            play(CELLS["s1.acp"], tmp_path, setting)


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except FileNotFoundError:
        return ""


@pytest.mark.sdk
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["file", "client"])
def test_interrupt_leaves_no_process_and_no_file(how: signal.Signals, moment: str, tmp_path: Path) -> None:
    need_sdks()
    need_packets()
    need(Path(f"/proc/{os.getpid()}/task").exists(), "/proc")
    code = "from hsa.cli.capture import capture; capture()"
    command = [sys.executable, "-c", code, "generate", "s4a.a2a", "--slow-ms", "60000", "-o", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    began: set[int] = set()
    reached = False
    end = time.monotonic() + 20
    while not reached and time.monotonic() < end:
        began.update(children(process.pid))
        reached = any("client" in command_line(pid) for pid in began)
        reached |= moment == "file" and (tmp_path / "s4a.a2a.pcap").exists()
        time.sleep(0.002)
    assert reached
    process.send_signal(how)
    process.communicate(timeout=20)
    assert process.returncode != 0
    assert list(tmp_path.iterdir()) == []
    end = time.monotonic() + 5  # a killed process takes a moment to be gone; one that was left would serve for a minute
    while any(running(pid) for pid in began) and time.monotonic() < end:
        time.sleep(0.01)
    assert not any(running(pid) for pid in began)


# -- command line ----------------------------------------------------------------------------------------------------


def test_list_shows_every_cell() -> None:
    result = CliRunner().invoke(capture, ["generate", "--list"])
    assert result.exit_code == 0
    cells, groups = result.output.split("\nGroups (--group):\n")
    assert [line.split()[0] for line in cells.splitlines()] == list(CELLS)
    assert [line.split()[0] for line in groups.splitlines()] == list(GROUPS)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["generate"], "no cell given"),
        (["generate", "s1"], "no folder given"),
        (["generate", "s9.x", "-o", "there"], "no cell 's9.x'"),
        (["generate", "s1", "-n", "0", "-o", "there"], "0"),
        (["generate", "s1", "--group", "s1", "-o", "there"], "not both"),
        (["generate", "--group", "s9", "-o", "there"], "no group 's9'"),
        (["generate", "s1", "--link", "relay", "--link", "path", "-o", "there"], "several links are for groups"),
        (["generate", "s1", "--link", "relay", "--loss", "1", "-o", "there"], "a relay link has no loss"),
        (["generate", "s1", "--rtt", "50", "-o", "there"], "a local link has no delay"),
        (["generate", "--group", "s1", "--link", "path", "--rtt", "-1", "-o", "there"], "round-trip time"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(capture, arguments)
    assert result.exit_code == 2
    assert said in result.output


def test_missing_sdk_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "acp_sdk" else find(name))
    result = CliRunner().invoke(capture, ["generate", "s1.acp", "-o", str(tmp_path)])
    assert result.exit_code == 2
    assert 'acp_sdk. Get the SDKs with: pip install "hsa[sdk]"' in result.output


# -- recorders -------------------------------------------------------------------------------------------------------


@pytest.fixture
def echo_port() -> Iterator[int]:
    """A server that answers one connection with 50 bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"y" * 50)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(5)


@pytest.mark.parametrize("without", [[], ["_tcpdump"], ["_tcpdump", "_dumpcap"]], ids=["tcpdump", "dumpcap", "scapy"])
def test_recorders(without: list[str], echo_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_packets()

    def absent(out: Any, ports: Any) -> Any:
        raise FileNotFoundError("not installed")

    for name in without:
        monkeypatch.setattr(sniffer, name, absent)
    recording = sniff(tmp_path / "x.pcap", [echo_port])
    with socket.create_connection(("127.0.0.1", echo_port)) as client:
        client.sendall(b"x" * 20)
        assert len(client.recv(100)) == 50
        port = client.getsockname()[1]
    time.sleep(recording.settle_s)
    recording.stop()
    assert recording.dropped in (0, None)
    seen = wire.read(tmp_path / "x.pcap", echo_port)
    assert seen.keys() == {port}
    assert (seen[port].bytes_up, seen[port].bytes_down) == (20, 50)
    with pytest.raises(FileExistsError):
        sniff(tmp_path / "x.pcap", [echo_port])


@pytest.mark.sdk
@pytest.mark.parametrize("without", [["_tcpdump"], ["_tcpdump", "_dumpcap"]], ids=["dumpcap", "scapy"])
def test_recorders_see_both_ways_of_a_path(without: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_sdks()
    need_packets()

    def absent(out: Any, wanted: Any) -> Any:
        raise FileNotFoundError("not installed")

    for name in without:
        monkeypatch.setattr(sniffer, name, absent)
    document = play(CELLS["s1.a2a"], tmp_path, Setting(runs=1, warmups=0, link=Link("path", 5))).document
    assert document["made"]["recorder"].lower().startswith("scapy" if len(without) > 1 else "dumpcap")
    hold_against_wire(document, tmp_path)


@pytest.mark.parametrize("without", [[], ["_tcpdump"]], ids=["tcpdump", "dumpcap"])
def test_recording_that_is_cut_short_is_told(
    without: list[str], echo_port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: the tool cannot write all that it captured."""
    need_packets()
    need(os.geteuid() == 0 and shutil.which("mount") is not None, "the right to mount (root)")

    def absent(out: Any, wanted: Any) -> Any:
        raise FileNotFoundError("not installed")

    for name in without:
        monkeypatch.setattr(sniffer, name, absent)
    small = tmp_path / "small"
    small.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=8k", "none", str(small)]
    need(subprocess.run(command, capture_output=True, check=False).returncode == 0, "the right to mount")
    try:
        recording = sniff(small / "x.pcap", [echo_port])
        for _ in range(60):
            with socket.socket() as client:
                client.connect_ex(("127.0.0.1", echo_port))
        time.sleep(recording.settle_s)
        with pytest.raises(CannotRecord, match="not complete"):
            recording.stop()
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_no_recorder_says_what_was_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(out: Any, ports: Any) -> Any:
        raise PermissionError("scapy: not permitted")

    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sniffer, "_scapy", refuse)
    with pytest.raises(CannotRecord, match=r"tcpdump: not installed; dumpcap: not installed; scapy: not permitted"):
        sniff(tmp_path / "x.pcap", [1])
    assert list(tmp_path.iterdir()) == []


def test_recorder_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("tcpdump", "dumpcap"):
        (tools / name).write_text("#!/bin/sh\necho no permission >&2\nexit 1\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/bin:/usr/bin")

    def refuse(out: Any, ports: Any) -> Any:
        raise OSError("no")

    monkeypatch.setattr(sniffer, "_scapy", refuse)
    with pytest.raises(CannotRecord, match=r"tcpdump: no permission; dumpcap: no permission"):
        sniff(tmp_path / "x.pcap", [1])


# -- the ledger ------------------------------------------------------------------------------------------------------


def answer_all(answers: list[bytes]) -> Any:
    """A server that reads requests by their blank line and gives these answers in turn."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while answers:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next((int(x.split(b":")[1]) for x in head.split(b"\r\n") if x.lower().startswith(b"content-l")), 0)
            await reader.readexactly(length)
            writer.write(answers.pop(0))
            await writer.drain()
        writer.close()

    return serve


async def ask(answers: list[bytes], requests: list[tuple[str, str, bytes]], **options: Any) -> tuple[Ledger, int]:
    """Send requests through a watched client; its ledger and the server's port."""
    httpx = pytest.importorskip("httpx")
    ledger = Ledger()
    server = await asyncio.start_server(answer_all(answers), "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    async with server, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", **options) as client:
        ledger.watch(client)
        for method, path, body in requests:
            await client.request(method, path, content=body)
    return ledger, port


def test_ledger_counts_bytes_of_each_request() -> None:
    first, second = (
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc",
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
    )
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"next"}}'
    ledger, port = asyncio.run(ask([first, second], [("POST", "/mcp", body), ("GET", "/x?y=1", b"")]))
    a, b = ledger.requests
    assert (a.operation, a.path, a.status, a.bytes_down, a.ordinal) == ("tools/list", "/mcp", 200, len(first), 0)
    assert (b.operation, b.path, b.status, b.bytes_down, b.ordinal) == ("GET", "/x?y=1", 404, len(second), 1)
    assert a.request_body == len(body)
    assert '"next"' in (a.repeats or "")
    assert a.port == b.port and ledger.opened() == 1
    head = f"GET /x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    assert len(head) < b.bytes_up < len(head) + 200


def test_ledger_reads_the_body_of_a_followed_redirect() -> None:
    answers = [
        b"HTTP/1.1 307 Temporary Redirect\r\nlocation: /mcp/\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
    ]
    body = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
    ledger, _ = asyncio.run(ask(answers, [("POST", "/mcp", body)], follow_redirects=True))
    assert [(r.path, r.operation, r.status) for r in ledger.requests] == [
        ("/mcp", "notifications/initialized", 307),
        ("/mcp/", "notifications/initialized", 202),
    ]


def test_ledger_takes_chunks_apart() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nx: y\r\n\r\n"
    body = b"5\r\nhello\r\n10;a=b\r\n" + b"x" * 16 + b"\r\n0\r\n\r\n"
    ledger, _ = asyncio.run(ask([head + body], [("GET", "/x", b"")]))
    (told,) = ledger.page()
    assert (told["head_bytes"], told["body_bytes"], told["bytes_down"]) == (len(head), 21, len(head) + len(body))


def test_ledger_tells_head_and_body_of_plain_answers() -> None:
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    answer = interim + b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\ncontent-type:text/plain\r\n\r\nabc"
    ledger, _ = asyncio.run(ask([answer], [("GET", "/x", b"")]))
    (told,) = ledger.page()
    assert told["body_bytes"] == 3 and told["content_type"] == "text/plain"


def test_ledger_tells_a_refused_connection() -> None:
    httpx = pytest.importorskip("httpx")
    ledger = Ledger()

    async def try_it() -> None:
        async with httpx.AsyncClient() as client:
            with pytest.raises(httpx.ConnectError):
                await ledger.watch(client).get("http://127.0.0.1:9/")

    asyncio.run(try_it())
    (request,) = ledger.requests
    assert (request.status, request.port, request.error, ledger.opened()) == (None, None, "ConnectError", 0)


# -- weighing --------------------------------------------------------------------------------------------------------


def request(operation: str, port: int, status: int | None, **more: Any) -> dict[str, Any]:
    row = {"method": "POST", "path": "/mcp", "operation": operation, "port": port, "ordinal": 0, "status": status}
    sizes = {"request_body": 1, "bytes_up": 10, "bytes_down": 20, "start_ns": 1_000_000, "end_ns": 3_000_000}
    return {**row, **sizes, "repeats": None, "error": None, **more}


def told(requests: list[dict[str, Any]], early: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    tcp = [{"port": port, "opened_ns": 5, "requests": 1, "closed_ns": None} for port in {r["port"] for r in requests}]
    outcome = {"outcome": "ready", "error": None, "start_ns": 0, "ready_ns": 4_000_000, "took_ns": 4_000_000}
    return {**outcome, "at_ready": early or requests, "requests": requests, "connections": tcp}


def test_refused_and_repeated_request_is_a_retry() -> None:
    weighed = truth.weigh(
        told([request("initialize", 1, 503), request("initialize", 2, 200), request("tools/list", 2, 200)]), "mcp"
    )
    assert (weighed["round_trips"], weighed["retries"], weighed["connections"]) == (3, 1, 2)
    assert (weighed["bytes_up"], weighed["wire_ms"], weighed["time_to_ready_ms"]) == (30, 2.0, 4.0)


def test_next_page_is_no_retry_and_unanswered_no_round_trip() -> None:
    pages = [request("tools/list", 1, 500, repeats='["a"]'), request("tools/list", 1, 200, repeats='["b"]')]
    weighed = truth.weigh(told([request("server/discover", 9, None), *pages]), "mcp")
    assert (weighed["round_trips"], weighed["attempts"], weighed["retries"]) == (2, 1, 0)
    assert weighed["era"] == "modern"


def test_old_transport_counts_its_stream_until_ready() -> None:
    stream = {"method": "GET", "path": "/sse"}
    early = [request("GET", 1, 200, **stream, bytes_down=100), request("initialize", 2, None)]
    late = [request("GET", 1, 200, **stream, bytes_down=400), request("initialize", 2, 202)]
    weighed = truth.weigh(told(late, early), "mcp")
    assert (weighed["bytes_down"], weighed["streams"], weighed["round_trips"]) == (120, 1, 2)
    assert weighed["phases"] == {"session": 2}


def test_truth_text_is_json_and_is_told_apart(tmp_path: Path) -> None:
    document = {"format": truth.FORMAT, "each": [{"a": 1}, {"a": 2}], "groups": [], "made": None}
    (tmp_path / "good").write_text(truth.text(document))
    (tmp_path / "other").write_text("{}")
    assert truth.load(tmp_path / "good") == document
    with pytest.raises(ValueError, match="is not hsa/truth/v1"):
        truth.load(tmp_path / "other")


def test_pool_that_does_not_join_is_told() -> None:
    requests = [{"port": 7, "ordinal": 0, "operation": "GET", "phase": "discovery"}]
    log = [{"client_port": 7, "connection_requests": 1, "exchange": 0}]
    served = [{"exchange": 0, "port": 8, "ordinal": 0}]
    assert len(truth.join_pool({"each": [{"requests": requests}]}, log, served)) == 1
    with pytest.raises(ValueError, match="no trace"):
        truth.join_pool({"each": [{"requests": requests}]}, [], served)
    with pytest.raises(ValueError, match="belong to no client"):
        truth.join_pool({"each": []}, log, served)


# -- faults ----------------------------------------------------------------------------------------------------------


async def through(fault: str, body: bytes, answer: bytes, content_type: bytes, path: str = "/mcp") -> tuple[Any, bytes]:
    """Head and body that a faulty counterpart sends for `answer`."""

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        assert (await receive())["body"] == body
        headers = [(b"content-type", content_type), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send(
            {"type": "http.response.body", "body": answer[:5], "more_body": True}
            if b"j" in content_type
            else {"type": "http.response.body", "body": answer}
        )
        if b"j" in content_type:
            await send({"type": "http.response.body", "body": answer[5:]})

    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await Faulty(inner, fault, 0.0)({"type": "http", "path": path}, receive, send)
    return sent[0], b"".join(message.get("body", b"") for message in sent[1:])


def test_truncated_json_has_valid_framing() -> None:
    head, body = asyncio.run(through("truncated", b"", b'{"name":"agent"}', b"application/json", "/agents"))
    assert body == b'{"name":'
    assert dict(head["headers"])[b"content-length"] == b"8"


def test_truncated_event_keeps_its_frame() -> None:
    event = b'event: message\r\ndata: {"result":{}}\r\n\r\n'
    _, body = asyncio.run(through("truncated", b'{"method":"initialize"}', event, b"text/event-stream"))
    assert body == b'event: message\r\ndata: {"resu\r\n\r\n'


def test_truncation_spares_tasks() -> None:
    answer = b'{"result":{}}'
    _, body = asyncio.run(through("truncated", b'{"method":"tools/call"}', answer, b"application/json"))
    assert body == answer


@pytest.mark.parametrize(
    ("fault", "members"), [("version", {"supported", "requested"}), ("version-bare", {"supported"})]
)
def test_version_error(fault: str, members: set[str]) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    ask = json.dumps({"id": 1, "method": "server/discover", "params": {"_meta": meta}}).encode()
    head, body = asyncio.run(through(fault, ask, b"", b"application/json"))
    error = json.loads(body)["error"]
    assert (head["status"], error["code"], error["data"].keys()) == (400, -32022, members)


# -- the proxy -------------------------------------------------------------------------------------------------------


def test_proxy_log_is_read(tmp_path: Path) -> None:
    row = {"connection": "3", "connection_requests": "1", "client_port": "40000", "status": "200", "exchange": ""}
    (tmp_path / "log").write_text(json.dumps({**row, "request": "GET / HTTP/1.1"}) + "\n")
    (read,) = proxy.read_log(tmp_path / "log")
    assert (read["connection"], read["client_port"], read["exchange"]) == (3, 40000, None)


def test_missing_nginx_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(proxy.NoProxy, match="nginx is not installed"), proxy.running(tmp_path, 0, 1):
        pass


def test_every_cell_can_be_named_in_json() -> None:
    from dataclasses import asdict

    for cell in CELLS.values():
        assert Cell(**json.loads(json.dumps(asdict(cell)))) == cell
