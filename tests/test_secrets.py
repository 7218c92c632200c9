"""Secrets seeded into a capture never come out of any command, in any format, nor out of the library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

import hsa
from fixtures import speech
from fixtures.cases.case55 import TASK, message, task_object
from fixtures.craft import Conversation, Tape
from fixtures.files import pcap
from fixtures.sessions import Legacy
from fixtures.speech import compact, request, response, rpc
from hsa.cli.main import run

AS = "as.example:9000"
FORM = "application/x-www-form-urlencoded"
SEEDS = {
    "access token": "mF9B5f41JqMx77Qe0a2LzP0kT",
    "refresh token": "tGzv3JOkF0XG5Qx2TlKWIA8fE1",
    "code": "SplxlOBeZQQYbYS6WxSbIA7x1",
    "verifier": "dBjftJeZ4CVPmB92K27uhbUJU1p1rwW1gFWFOEjXk",
    "client secret": "gX1fBat3bV9TnX0aAfe7hQ2",
    "state": "af0ifjsldkj8Kd02nq",
    "cookie": "31d4d96e407aad42bb19f3",
    "basic": "Y2xpZW50OnBhc3N3MHJkLTEyMw",
    "api key": "k3y9f8e7d6c5b4a32100aabb",
    "push token": "pUsH7c1e9a52f00d4b1cQ9",
    "assertion": "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJhZ2VudCJ9.c2lnbmF0dXJlMTIz",
    "device code": "GmRhmhcxhwAzkoEqiMEgDnyEysNkuNhszIySk9eS",
    "user code": "WDJBMJHT7Q2",
    "query token": "qT0k3nInTheUrl77Zz19x",
    "told in an error": "sk-live-4f9a8b7c6d5e4f3a2b1c0d",
    "session": "b971063149bc4f71830fd7ece2cc670b",
    "userinfo": "an0therPassw0rd42x",
    "dpop": "eyJ0eXAiOiJkcG9wK2p3dCJ9.eyJqdGkiOiItQndDIn0.ZnJvbSBhIGtleQ",
}


def ask(on: Conversation, method: str, target: str, down: bytes, body: bytes | None = None, **headers: str) -> None:
    kind = FORM if body is not None and not body.startswith(b"{") else "application/json"
    host = headers.pop("host", AS)
    on.exchange(request(method, target, body, host=host, client={}, content_type=kind, headers=headers), down)


def story() -> Tape:
    """A whole authorisation, its renewal, an agent with an API key and a webhook: a secret in every place there is."""
    s = SEEDS
    tape = Tape()
    client = Legacy(tape.connect(), session=s["session"])
    challenge = (
        'Bearer error="invalid_token", resource_metadata="http://mcp.example:8000/.well-known/oauth-protected-resource"'
    )
    refused = response(
        401, compact({"error": f"invalid_token {s['told in an error']}"}), headers={"WWW-Authenticate": challenge}
    )
    client.say(client.request(rpc(0, "initialize", speech.initialize_params()), bare=True), refused)
    resource = {"resource": "http://mcp.example:8000/mcp", "authorization_servers": [f"http://{AS}"]}
    ask(client.on, "GET", "/.well-known/oauth-protected-resource", response(200, compact(resource)), host=client.host)
    there = tape.connect(server="198.51.100.40:9000")
    base = f"http://{AS}"
    known = {
        "issuer": base, "token_endpoint": f"{base}/token", "registration_endpoint": f"{base}/register",
        "authorization_endpoint": f"{base}/authorize", "device_authorization_endpoint": f"{base}/device",
    }  # fmt: skip
    ask(there, "GET", "/.well-known/oauth-authorization-server", response(200, compact(known)))
    wish = {"redirect_uris": ["http://localhost:3030/callback"]}
    registered = {**wish, "client_id": "client-7", "client_secret": s["client secret"]}
    ask(there, "POST", "/register", response(201, compact(registered)), compact(wish))
    page = urlencode(
        {
            "response_type": "code", "client_id": "client-7", "redirect_uri": "http://localhost:3030/callback",
            "code_challenge": s["verifier"][::-1], "code_challenge_method": "S256", "state": s["state"],
        }
    )  # fmt: skip
    back = {"Location": f"http://localhost:3030/callback?code={s['code']}&state={s['state']}"}
    browser = tape.connect(server="198.51.100.40:9000")
    ask(browser, "GET", f"/authorize?{page}", response(307, b"", headers=back), Cookie=f"sid={s['cookie']}")
    listener = tape.connect(server="192.0.2.10:3030")
    ask(listener, "GET", f"/callback?code={s['code']}&state={s['state']}", response(200, b"{}"), host="localhost:3030")
    device = {"device_code": s["device code"], "user_code": s["user code"], "verification_uri": f"{base}/go"}
    ask(there, "POST", "/device", response(200, compact(device)), b"client_id=client-7")
    for form, basic in (
        ({"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": s["device code"]}, False),
        ({"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": s["assertion"]}, False),
        ({"grant_type": "authorization_code", "code": s["code"], "code_verifier": s["verifier"]}, True),
    ):
        pending = response(400, compact({"error": "authorization_pending", "error_description": s["device code"]}))
        given = {"access_token": s["access token"], "token_type": "Bearer", "refresh_token": s["refresh token"]}
        headers = {"Authorization": f"Basic {s['basic']}", "DPoP": s["dpop"]} if basic else {}
        ask(
            there,
            "POST",
            "/token",
            response(200, compact(given)) if basic else pending,
            urlencode(form).encode(),
            **headers,
        )
    client.extra = {"Authorization": f"Bearer {s['access token']}", "Cookie": f"sid={s['cookie']}"}
    client.path = f"/mcp?access_token={s['query token']}"
    client.initialize()
    client.initialized()
    client.list_tools()
    client.call()
    failure = f"upstream said: Authorization: Bearer {s['access token']} is no good, api_key={s['api key']}"
    client.call(value=speech.error(client.next_id, -32000, failure))
    rpc_id = client.take_id()
    client.say(client.request(rpc(rpc_id, "tools/call", {"name": "forecast", "arguments": {}})), refused)
    renewal = {"grant_type": "refresh_token", "refresh_token": s["refresh token"], "client_secret": s["client secret"]}
    bad = {"error": "invalid_grant", "error_description": f"refresh_token={s['refresh token']} has been revoked"}
    ask(there, "POST", "/token", response(400, compact(bad)), urlencode(renewal).encode())
    agent = tape.connect(server="198.51.100.30:9000")
    card = speech.card_02(f"http://user:{s['userinfo']}@agent.example:9000/?key={s['api key']}", version="0.3.0")
    card["securitySchemes"] = {"k": {"type": "apiKey", "in": "header", "name": "X-Harbour-Key"}}
    ask(
        agent,
        "GET",
        f"/.well-known/agent-card.json?token={s['query token']}",
        response(200, compact(card)),
        host="agent.example:9000",
    )
    hook = {"url": f"http://192.0.2.10:7000/hooks?token={s['push token']}", "token": s["push token"]}
    send = {"message": message(), "configuration": {"pushNotificationConfig": hook}}
    body = compact({"id": "1", "jsonrpc": "2.0", "method": "message/send", "params": send})
    done = compact(speech.result("1", task_object("submitted")))
    key = {"X-Harbour-Key": s["api key"], "host": "agent.example:9000"}
    ask(agent, "POST", "/", response(200, done), body, **key)
    back_in = tape.connect("198.51.100.30", "192.0.2.10:7000")
    told = compact(task_object("completed"))
    hooked = {"X-A2A-Notification-Token": s["push token"], "host": "192.0.2.10:7000"}
    ask(back_in, "POST", f"/hooks?token={s['push token']}", response(200, b"{}"), told, **hooked)
    assert TASK in told.decode()
    return tape


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("secrets") / "seeded.pcap"
    data = pcap(story().in_order())
    assert all(seed.encode() in data for seed in SEEDS.values())
    file.write_bytes(data)
    return file


def leaks(text: str) -> list[str]:
    """Seeds of which eight characters in a row are in the text."""
    found = []
    for name, seed in SEEDS.items():
        if any(seed[i : i + 8] in text for i in range(len(seed) - 7)):
            found.append(name)
    return found


FORMATS = ("table", "json", "jsonl", "csv", "markdown")
COMMANDS = [
    *(["analyze", *each, "--format", form] for each in ([], ["--each"]) for form in FORMATS),
    ["show"], *(["show", "{}", str(n)] for n in range(3)), *(["show", "--json", "{}", str(n)] for n in range(3)),
    ["exchanges"], ["exchanges", "--format", "csv"], ["verify"], ["diff", "{}", "{}"], ["diff", "--json", "{}", "{}"],
    ["replay", "predict", "--rtt", "50"], ["replay", "predict", "--rtt", "50", "--json"],
]  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_lets_a_secret_out(words: list[str], capture: Path, capfd: pytest.CaptureFixture[str]) -> None:
    given = [str(capture) if word == "{}" else word for word in words]
    run(given if "{}" in words else [*given, str(capture)])
    out, err = capfd.readouterr()
    assert out or err
    assert leaks(out + err) == []


def test_the_library_lets_none_out(capture: Path) -> None:
    analysis = hsa.analyze([capture])
    assert leaks(repr([vars_of(h) for h in analysis.handshakes])) == []
    assert leaks(repr([vars_of(e) for e in hsa.exchanges([capture])])) == []
    assert leaks(hsa.frame([capture]).to_csv()) == []


def vars_of(value: Any, depth: int = 0) -> Any:
    """Every field of a record, and of those inside it."""
    if depth > 6:
        return "..."
    if isinstance(value, (list, tuple)):
        return [vars_of(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {str(name): vars_of(item, depth + 1) for name, item in value.items()}
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    return {name: vars_of(getattr(value, name, None), depth + 1) for name in names} if names else value


def test_what_may_be_known_is_still_there(capture: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Kinds of credentials, hosts, and a hash by which equal secrets look equal."""
    run(["analyze", "--json", str(capture)])
    document = json.loads(capfd.readouterr().out)
    mcp, a2a = document["handshakes"]
    assert mcp["authentication"]["used"] == ["bearer"] and a2a["used"]["schemes"] == ["x-harbour-key"]
    assert mcp["authentication"]["hosts"][1]["host"] == AS
    assert a2a["lifecycles"][0]["callbacks"] == 1
    run(["exchanges", str(capture)])
    targets = [json.loads(line)["target"] for line in capfd.readouterr().out.splitlines()]
    codes = list(hashes(targets, "code=code#"))
    assert len(codes) == 1
    assert len(set(hashes(targets, "token=bearer#"))) == 2  # that of two URLs, and the webhook's


def hashes(targets: list[str], before: str) -> Iterator[str]:
    for target in targets:
        if before in target:
            yield target.partition(before)[2][:6]
