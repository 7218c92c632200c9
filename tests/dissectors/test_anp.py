"""ANP: documents lead to documents and calls; a signature answered with a token is of the session phase."""

from __future__ import annotations

from hsa.dissectors.reading import Phase, Role
from hsa.dissectors.recognise import Recogniser
from tests.dissectors.exchanges import JSON, SERVER, get, post, request

BASE = f"http://{SERVER}"
SIGNED = 'Authorization: DIDWba did="did:wba:x", signature="s3cr3t"\n'


def test_documents_lead_on() -> None:
    recogniser = Recogniser()
    page = {"items": [{"@id": f"{BASE}/a/agent"}], "next": f"{BASE}/.well-known/agent-descriptions?page=2"}
    first = recogniser.read(get("/.well-known/agent-descriptions", JSON, page))
    assert first is not None and first.answer is not None and first.answer.next_cursor
    assert first.answer.interfaces == ((f"{BASE}/a/agent", "anp"),)
    ad = {"name": "harbour", "interfaces": [{"url": f"{BASE}/a/api.json"}, {"url": 7}, "x"]}
    second = recogniser.read(get("/a/agent", JSON, ad))
    assert second is not None and (second.operation, second.role) == ("agent-description", Role.LISTING)
    third = recogniser.read(
        get("/a/api.json", JSON, {"servers": [{"url": f"{BASE}/a/rpc"}], "methods": [{"name": "m"}]})
    )
    assert third is not None and third.answer is not None and third.answer.names == ("m",)
    assert third.phase is Phase.CAPABILITY
    call = recogniser.read(post(request("m", 4, {}), {"jsonrpc": "2.0", "id": 4, "result": 1}, path="/a/rpc"))
    assert call is not None and (call.protocol, call.role, call.numeric_id) == ("anp", Role.TASK, 4)


def test_a_signature_that_is_answered_with_a_token() -> None:
    answered = "HTTP/1.1 200 OK\nContent-Type: application/json\nAuthentication-Info: access_token=t0k3n"
    reading = Recogniser().read(get("/a/ad.json", answered, {"protocolType": "ANP"}, headers=SIGNED))
    assert reading is not None and reading.phase is Phase.SESSION
    assert "s3cr3t" not in repr(reading) and "t0k3n" not in repr(reading)


def test_refused_as_anp_refuses() -> None:
    challenge = "HTTP/1.1 401 Unauthorized\nWWW-Authenticate: DIDWba nonce=x\nContent-Type: application/json"
    reading = Recogniser().read(get("/a/ad.json", challenge, b"{}"))
    assert reading is not None and (reading.operation, reading.phase) == ("agent-description", Phase.SESSION)
    assert Recogniser().read(get("/a/ad.json", "HTTP/1.1 404 Not Found", b"{}")) is None


def test_the_meta_protocol_negotiates() -> None:
    body = b'\x00{"action":"protocolNegotiation","sequenceId":0,"candidateProtocols":"x","status":"negotiating"}'
    reading = Recogniser().read(post(body, b"{}", path="/meta"))
    assert reading is not None and (reading.protocol, reading.operation) == ("anp", "negotiation")
