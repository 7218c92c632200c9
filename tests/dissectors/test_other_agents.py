"""Other agent protocols are named; language servers and unknown JSON-RPC are no agents."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.dissectors.http import HttpExchange
from hsa.dissectors.recognise import Recogniser
from tests.dissectors.exchanges import JSON, exchange, get, post, request

GRPC = "POST {} HTTP/1.1\nHost: a\nContent-Type: application/grpc+proto"


@pytest.mark.parametrize(
    ("made", "protocol", "operation"),
    [
        (
            post(request("initialize", 0, {"protocolVersion": 1, "clientCapabilities": {}}), path="/acp"),
            "agent-client-protocol",
            "initialize",
        ),
        (post(request("session/prompt"), path="/acp"), "agent-client-protocol", "session/prompt"),
        (post(request("fs/read_text_file"), path="/x"), "agent-client-protocol", "fs/read_text_file"),
        (get("/acp", JSON, b"", headers="Acp-Session-Id: s\n"), "agent-client-protocol", "GET"),
        (get("/acp", "HTTP/1.1 200 OK\nAcp-Connection-Id: c"), "agent-client-protocol", "GET"),
        (get("/.well-known/agent-descriptions", JSON, b"{}"), "anp", "agent-descriptions"),
        (get("/a/ad.json", JSON, {"protocolType": "ANP"}), "anp", "agent-description"),
        (get("/a/ad.json", JSON, {"@type": "ad:AgentDescription"}), "anp", "agent-description"),
        (get("/u/did.json", JSON, {"id": "did:wba:example.com"}), "anp", "did-document"),
        (
            get("/x", JSON, b"{}", headers='Authorization: DIDWba did="did:wba:x", signature="s3cr3t"\n'),
            "anp",
            "signed request",
        ),
        (get("/x", JSON, b"{}", headers='Signature-Input: sig1=();keyid="did:wba:x#k"\n'), "anp", "signed request"),
        (post({"protocolHash": "negotiation", "protocolSources": [], "body": ""}, path="/"), "agora", "negotiation"),
        (post({"protocolHash": None, "protocolSources": ["u"], "body": ""}, path="/"), "agora", "natural call"),
        (exchange(GRPC.format("/helloworld.Greeter/SayHello"), b"x"), "grpc", "helloworld.Greeter/SayHello"),
        (exchange(GRPC.format("/grpc.health.v1.Health/Check"), b"x"), "grpc-health", "grpc.health.v1.Health/Check"),
        (
            post(request("eth_blockNumber", 1, []), {"jsonrpc": "2.0", "id": 1, "result": "0x1"}, path="/"),
            "jsonrpc-unknown",
            "eth_blockNumber",
        ),
        (post([request("getblock"), request("getinfo")], path="/"), "jsonrpc-unknown", "getblock"),
    ],
)
def test_named(made: HttpExchange, protocol: str, operation: str) -> None:
    reading = Recogniser().read(made)
    assert reading is not None and (reading.protocol, reading.operation) == (protocol, operation)
    assert "s3cr3t" not in repr(reading)


@pytest.mark.parametrize(
    "made",
    [
        post(request("initialize", 1, {"processId": 7, "rootUri": "file:///x", "clientInfo": {}, "capabilities": {}})),
        post(request("textDocument/hover", 1, {})),
        post({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": 1}}),
        post({"id": 1, "method": "get", "params": {}}, path="/rpc"),
        get("/u/did.json", JSON, {"id": "did:web:example.com"}),
        get("/config/ad.json", JSON, {"banner": 1}),
        post({"protocolHash": "x"}, path="/"),
        post({"query": "{ me { id } }"}, {"data": {}}, path="/graphql"),
    ],
)
def test_look_alikes(made: Any) -> None:
    assert Recogniser().read(made) is None
