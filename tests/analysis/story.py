"""Short conversations on a tape, analysed: for tests of rules that only whole captures can show."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fixtures import speech
from fixtures.craft import Conversation, Packet, Said, Tape
from fixtures.files import pcap
from fixtures.sessions import Legacy
from fixtures.speech import JsonObject, compact, request, response, result
from hsa.analysis.model import Exchange
from hsa.analysis.options import Options
from hsa.analysis.output import analysis_json
from hsa.analysis.pipeline import analyze_traces, iter_exchanges

AGENT = "198.51.100.30:9000"
HOST = "agent.example:9000"
CARD = compact(speech.card_02("http://agent.example:9000/"))
NOT_FOUND = response(404, b'{"detail":"Not Found"}')
AUTH_HOST = "as.example:9000"
CHALLENGE = {
    "WWW-Authenticate": 'Bearer resource_metadata="http://mcp.example:8000/.well-known/oauth-protected-resource"'
}


def analysed(told: Tape | Sequence[Packet], **options: Any) -> dict[str, Any]:
    """The output for a tape, or for some of its packets."""
    with tempfile.TemporaryDirectory() as folder:
        analysis = analyze_traces([_file(told, folder)], _options(options))
    assert analysis.bugs == 0
    return analysis_json(analysis)


def handshakes(told: Tape | Sequence[Packet], **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = analysed(told, **options)["handshakes"]
    return found


def only(told: Tape | Sequence[Packet], **options: Any) -> dict[str, Any]:
    """The one handshake there is."""
    found = handshakes(told, **options)
    assert len(found) == 1, [(h["protocol"], h["outcome"], h["exchanges"]) for h in found]
    return found[0]


def exchanges(told: Tape | Sequence[Packet], **options: Any) -> list[Exchange]:
    with tempfile.TemporaryDirectory() as folder:
        return list(iter_exchanges([_file(told, folder)], _options(options)))


def notes(handshake: dict[str, Any]) -> dict[str, int]:
    """Kinds of notes and their counts."""
    return {note["kind"]: note["count"] for note in handshake["notes"]}


def _file(told: Tape | Sequence[Packet], folder: str) -> Path:
    path = Path(folder) / "story.pcap"
    path.write_bytes(pcap(told.in_order() if isinstance(told, Tape) else told))
    return path


def _options(options: dict[str, Any]) -> Options:
    return Options.of({"tokenizer": "none", **options})


def get(on: Conversation, target: str, down: bytes) -> Said:
    """A GET of an A2A or ACP client."""
    return on.exchange(request("GET", target, host=HOST, client=speech.HTTPX), down)


def get_card(on: Conversation, card: bytes = CARD) -> Said:
    return get(on, "/.well-known/agent-card.json", response(200, card))


def send(
    on: Conversation, number: int = 1, state: str = "completed", *, task: str = "", context: str = "", host: str = HOST
) -> Said:
    """A2A `message/send`, answered by a task; `task` and `context` are named where they are known already."""
    message: JsonObject = {
        "role": "user",
        "parts": [{"kind": "text", "text": "High water?"}],
        "messageId": f"{number:08d}-aaaa-4aaa-8aaa-aaaaaaaaaaaa",
        "kind": "message",
    }
    message |= {"contextId": context} if context else {}
    message |= {"taskId": task} if task else {}
    rpc_id = f"{number:08d}-bbbb-4bbb-8bbb-bbbbbbbbbbbb"
    body = {"id": rpc_id, "jsonrpc": "2.0", "method": "message/send", "params": {"message": message}}
    up = request("POST", "/", compact(body), host=host, client=speech.HTTPX)
    names = {"id": task or f"task-{number:016d}", "contextId": context or f"context-{number:016d}"}
    return on.exchange(
        up, response(200, compact(result(rpc_id, {"kind": "task", **names, "status": {"state": state}})))
    )


def asked_again(on: Conversation, task: str, state: str) -> Said:
    """A2A `tasks/get`."""
    body = {"id": "cccccccc-0000", "jsonrpc": "2.0", "method": "tasks/get", "params": {"id": task}}
    answer = {"kind": "task", "id": task, "contextId": "context", "status": {"state": state}}
    up = request("POST", "/", compact(body), host=HOST, client=speech.HTTPX)
    return on.exchange(up, response(200, compact(result("cccccccc-0000", answer))))


def run(on: Conversation, run_id: str, status: str, session: str = "") -> Said:
    """ACP `POST /runs`."""
    body: JsonObject = {"agent_name": "pilot", "input": [], **({"session_id": session} if session else {})}
    up = request("POST", "/runs", compact(body), host=HOST, client=speech.HTTPX)
    return on.exchange(up, response(200, compact(speech.run(run_id, status))))


def preflight(on: Conversation, target: str, method: str, names: str, host: str = HOST) -> Said:
    """A browser's question."""
    asks = {"Origin": "http://app.example", "Access-Control-Request-Method": method}
    up = request(
        "OPTIONS", target, host=host, client=speech.NODE, headers=asks | {"Access-Control-Request-Headers": names}
    )
    return on.exchange(up, response(204, b"", None, framing="none"))


def authorise(client: Legacy, tape: Tape, consent_ms: float) -> Conversation:
    """Metadata of the resource, then of the authorization server on another host; a person's consent; the token."""
    version = {"mcp-protocol-version": "2025-11-25"}
    resource = {"resource": "http://mcp.example:8000/mcp", "authorization_servers": [f"http://{AUTH_HOST}"]}
    up = request("GET", "/.well-known/oauth-protected-resource", host=client.host, client=version)
    client.on.exchange(up, response(200, compact(resource)))
    on = tape.connect(server="198.51.100.40:9000")
    server = {"issuer": f"http://{AUTH_HOST}", "token_endpoint": f"http://{AUTH_HOST}/token"}
    up = request("GET", "/.well-known/oauth-authorization-server", host=AUTH_HOST, client=version)
    on.exchange(up, response(200, compact(server)))
    tape.wait(consent_ms)
    form = b"grant_type=authorization_code&code=c0de&code_verifier=verifier"
    up = request("POST", "/token", form, host=AUTH_HOST, client={}, content_type="application/x-www-form-urlencoded")
    on.exchange(up, response(200, compact({"access_token": "secret", "token_type": "bearer"})))
    return on


def nested(legs: Sequence[Conversation], up: bytes, down: bytes, delay_ms: float = 0.3) -> None:
    """One exchange that passes all legs, the one nearest the client first."""
    for leg in legs:
        leg.up(up, delay_ms)
    for leg in reversed(legs):
        leg.down(down, delay_ms)
