"""The recorded counterpart, met by the real SDK clients, and by requests that were not recorded."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest

from hsa.replay.messages import exchanges_of
from hsa.replay.recorded import read
from hsa.replay.serve import Counterpart, Served
from tests.replay.build import FIXTURES, OPTIONS

CELLS = (
    "s1.mcp-legacy",
    "s1.mcp-legacy-json",
    "s1.mcp-legacy-stateless",
    "s1.mcp-legacy-sse",
    "s1.mcp-legacy-redirect",
    "s1.mcp-modern",
    "s1.mcp-modern-server1",
    "s1.mcp-modern-sse",
    "s1.mcp-pinned",
    "s1.a2a",
    "s1.acp",
)


@contextmanager
def serving(name: str, **how: Any) -> Iterator[tuple[list[str], list[Served]]]:
    """(URLs of the recorded servers, what was served so far) of a capture below fixtures/, in a thread."""
    recorded = list(exchanges_of(read([FIXTURES / name], OPTIONS, keep_bytes=True)))
    served: list[Served] = []
    loop = asyncio.new_event_loop()
    counterpart = Counterpart(recorded, told=served.append, **how)
    urls = loop.run_until_complete(counterpart.listen())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield list(urls.values()), served
    finally:
        asyncio.run_coroutine_threadsafe(counterpart.close(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def visit(errand: Any) -> list[dict[str, Any]]:
    """What the SDK's client tells of its contacts."""
    from hsa.capture.generate.processes import client, python_client

    with client(python_client(sys.executable), errand.cell.protocol, nullcontext(), {}) as player:
        return player.contacts(errand, lambda outcome: None)[1]


@pytest.mark.sdk
@pytest.mark.parametrize("name", CELLS)
def test_the_real_client_does_its_handshake_and_a_task(name: str) -> None:
    """Twice, so that ids of one contact do not serve the other."""
    pytest.importorskip("mcp")
    from hsa.capture.generate.cells import CELLS as KNOWN
    from hsa.capture.generate.errand import Errand

    cell = KNOWN[{"s1.mcp-modern-server1": "s1.mcp-modern"}.get(name, name)]
    with serving(f"recorded/{name}.pcap", fast=True) as (urls, served):
        errand = Errand(cell, urls[0], direct=urls[0], runs=2)
        told = visit(errand)
    assert [(record["outcome"], record["task"]) for record in told] == [("ready", "ok")] * 2, told
    assert all(each.exchange is not None for each in served if each.operation != "notifications/cancelled")


@pytest.mark.parametrize("name", ["h2.a2a", "h2.mcp-legacy"])
def test_a_counterpart_recorded_over_http2_answers_over_http1(name: str) -> None:
    """The same client, which does not speak HTTP/2 in clear text."""
    pytest.importorskip("mcp")
    from hsa.capture.generate.cells import CELLS as KNOWN
    from hsa.capture.generate.errand import Errand

    with serving(f"replay/{name}.local.pcapng.gz", fast=True) as (urls, _):
        errand = Errand(KNOWN[f"s1.{name[3:]}"], urls[0], direct=urls[0], runs=1)
        told = visit(errand)
    assert [(record["outcome"], record["task"]) for record in told] == [("ready", "ok")], told


def post(url: str, document: Any, **headers: str) -> tuple[int, Any]:
    request = urllib.request.Request(
        url, json.dumps(document).encode(), {"content-type": "application/json", **headers}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_what_was_not_recorded_is_refused_by_name() -> None:
    with serving("recorded/s1.mcp-modern.pcap", fast=True) as ((url, *_), served):
        status, answer = post(f"{url}/mcp", {"jsonrpc": "2.0", "id": 7, "method": "prompts/list", "params": {}})
        assert status == 200 and answer["id"] == 7 and answer["error"]["code"] == -32601
        assert "server/discover, tools/list, tools/call" in answer["error"]["message"]
        call = {"name": "echo", "arguments": {"text": "something else"}}
        status, answer = post(f"{url}/mcp", {"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": call})
        assert answer["id"] == "x" and answer["error"]["code"] == -32602
        assert "hello" in answer["error"]["message"]
        status, _ = post(f"{url}/elsewhere", {"a": 1})
        assert status == 404
    assert [each.exchange for each in served] == [None, None, None]


def test_addresses_in_a_card_lead_to_the_recorded_counterpart() -> None:
    with serving("recorded/s1.a2a.pcap", fast=True) as ((url, *_), _):
        with urllib.request.urlopen(f"{url}/.well-known/agent-card.json", timeout=10) as answer:
            card = json.load(answer)
        assert {each["url"] for each in card["supportedInterfaces"]} == {f"{url}/"}


def test_a_session_id_that_was_not_given_out_is_unknown() -> None:
    with serving("recorded/s1.mcp-legacy.pcap", fast=True) as ((url, *_), _):
        document = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert post(f"{url}/mcp", document, **{"mcp-session-id": "made-up"})[0] == 404


def test_recorded_time_passes_unless_told_otherwise() -> None:
    import time

    taken = []
    for fast in (False, True):
        with serving("recorded/s4a.acp.pcap", fast=fast) as ((url, *_), _):
            start = time.monotonic()
            with urllib.request.urlopen(f"{url}/agents", timeout=10) as answer:
                answer.read()
            taken.append(time.monotonic() - start)
    assert taken[0] == pytest.approx(0.2, abs=0.1)
    assert taken[1] < 0.1


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x00", b"GET / HTTP/1.1\r\n\r\n", b"nonsense\r\n\r\n", b"GET /" + b"a" * 200_000]
)
def test_a_broken_client_gets_an_error_and_hurts_nobody(sent: bytes) -> None:
    import socket

    with serving("recorded/s1.acp.pcap", fast=True) as ((url, *_), _):
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
            try:
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
                said = client.recv(4096)
            except OSError:  # reset, or shut before our end of it
                said = b""
            assert said == b"" or said.split(None, 2)[1][:1] == b"4"
        with urllib.request.urlopen(f"{url}/agents", timeout=10) as answer:
            assert json.load(answer)["agents"]
