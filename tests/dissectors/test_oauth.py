"""OAuth: recognised by content, attached to the protocol whose challenge led there, no secret kept."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.dissectors.http import HttpExchange
from hsa.dissectors.reading import Phase, Reading, Role
from hsa.dissectors.recognise import Recogniser
from tests.dissectors.exchanges import JSON, exchange, get, post
from tests.dissectors.test_mcp import INITIALIZE

FORM = "POST /token HTTP/1.1\nHost: as.example\nContent-Type: application/x-www-form-urlencoded"
CODE = b"grant_type=authorization_code&code=c0de-s3cr3t&code_verifier=v3rifier&client_id=x"
AUTHORIZE = (
    "/authorize?response_type=code&client_id=x&redirect_uri=http%3A%2F%2Fl&state=st4te"
    "&code_challenge=c&code_challenge_method=S256"
)


def read(made: HttpExchange, recogniser: Recogniser | None = None) -> Reading:
    reading = (recogniser or Recogniser()).read(made)
    assert reading is not None
    assert reading.phase is Phase.SESSION and reading.era is None
    return reading


def at(host: str, made: HttpExchange) -> HttpExchange:
    made.authority = host
    return made


METADATA = {
    "issuer": "https://as.example/tenant",
    "authorization_endpoint": "https://as.example/authorize",
    "token_endpoint": "https://login.example/oauth2/t",
    "registration_endpoint": "https://as.example/clients",
    "jwks_uri": "https://as.example/keys",
}


@pytest.mark.parametrize(
    ("made", "operation"),
    [
        (get("/.well-known/oauth-protected-resource/mcp", JSON, {"resource": "x"}), "protected-resource-metadata"),
        (get("/.well-known/oauth-authorization-server/tenant", JSON, METADATA), "authorization-server-metadata"),
        (get("/tenant/.well-known/openid-configuration", JSON, METADATA), "openid-configuration"),
        (exchange(FORM, CODE, JSON, {"access_token": "t0ken"}), "token"),
        (post({"redirect_uris": ["http://l"]}, {"client_id": "x", "client_secret": "s"}, path="/register"), "register"),
        (get(AUTHORIZE, "HTTP/1.1 302 Found\nLocation: http://l?code=c0de-s3cr3t&state=st4te"), "authorize"),
    ],
)
def test_by_content(made: HttpExchange, operation: str) -> None:
    reading = read(made)
    assert (reading.protocol, reading.operation, reading.role) == ("oauth", operation, Role.AUTH)
    assert reading.answer is not None and reading.answer.ok
    for secret in ("c0de-s3cr3t", "t0ken", "v3rifier", "st4te"):
        assert secret not in repr(reading)


def test_the_version_header_names_mcp_but_no_era() -> None:
    made = get("/.well-known/oauth-protected-resource", JSON, b"{}", headers="mcp-protocol-version: 2026-07-28\n")
    assert read(made).protocol == "mcp"


def test_the_walk_belongs_to_the_protocol_that_was_challenged() -> None:
    recogniser = Recogniser()
    challenge = 'WWW-Authenticate: Bearer resource_metadata="https://rs.example/custom/prm"'
    recogniser.read(at("agent.example", post(INITIALIZE, told=f"HTTP/1.1 401 Unauthorized\n{challenge}")))
    prm = at("rs.example", get("/custom/prm", JSON, {"authorization_servers": ["https://as.example/tenant"]}))
    assert Recogniser().read(prm) is None
    reading = read(prm, recogniser)
    assert (reading.protocol, reading.operation) == ("mcp", "protected-resource-metadata")
    metadata = at("as.example", get("/.well-known/oauth-authorization-server/tenant", JSON, METADATA))
    assert read(metadata, recogniser).protocol == "mcp"
    token = exchange("POST /oauth2/t HTTP/1.1\nHost: login.example\nContent-Type: x/y", b"?", JSON, b"{}")
    reading = read(token, recogniser)
    assert (reading.protocol, reading.operation) == ("mcp", "token")
    keys = at("as.example", get("/keys", JSON, {"keys": []}))
    assert (read(keys, recogniser).operation, read(keys, recogniser).role) == ("jwks", Role.SESSION)


@pytest.mark.parametrize(
    ("made", "cause", "detail"),
    [
        (
            exchange(FORM, CODE, "HTTP/1.1 400 Bad\nContent-Type: application/json", {"error": "invalid_grant"}),
            "auth-failed",
            "HTTP 400 invalid_grant",
        ),
        (get("/.well-known/oauth-protected-resource", "HTTP/1.1 404 Not Found"), "http-status", "HTTP 404"),
        (post({"redirect_uris": []}, b"", path="/register", told="HTTP/1.1 403 X"), "auth-failed", "HTTP 403"),
        (
            get(AUTHORIZE, "HTTP/1.1 302 Found\nLocation: http://l?error=access_denied&state=x"),
            "auth-failed",
            "HTTP 302 access_denied",
        ),
        (get("/.well-known/openid-configuration", "HTTP/1.1 301 X\nLocation: /y"), "redirect-not-followed", "HTTP 301"),
    ],
)
def test_refused_steps(made: HttpExchange, cause: str, detail: str) -> None:
    answer = read(made).answer
    assert answer is not None
    assert (answer.ok, answer.cause, answer.detail) == (False, cause, detail)


@pytest.mark.parametrize("grant", ["authorization_code", "refresh_token", "client_credentials"])
def test_the_grant_is_told(grant: str) -> None:
    reading = read(exchange(FORM, f"grant_type={grant}&refresh_token=s3cr3t".encode(), JSON, b"{}"))
    assert reading.subject == grant and "s3cr3t" not in repr(reading)


@pytest.mark.parametrize(
    "made",
    [
        exchange(FORM, b"grant_type=tea&x=1", JSON, b"{}"),
        exchange(FORM, b"user=a&password=b", JSON, b"{}"),
        exchange(FORM, b"grant_type=" + b"x" * 20_000, JSON, b"{}"),
        post({"redirect_uris": ["x"]}, {"ok": True}, path="/settings"),
        get("/search?response_type=code&q=x", JSON, b"{}"),
        get("/docs/oauth-protected-resource", JSON, b"{}"),
        get("/keys", JSON, {"keys": []}),
    ],
)
def test_foreign_look_alikes(made: Any) -> None:
    assert Recogniser().read(made) is None


def test_preflights() -> None:
    made = exchange("OPTIONS /.well-known/oauth-protected-resource HTTP/1.1\nHost: a", b"", "HTTP/1.1 204 No Content")
    assert read(made).operation == "preflight"


DEVICE = b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code=d3v1ce"


def test_a_device_that_is_to_wait_is_not_refused() -> None:
    pending = exchange(FORM, DEVICE, "HTTP/1.1 400 Bad Request\nContent-Type: application/json", {"error": "slow_down"})
    reading = read(pending)
    assert reading.answer is not None and reading.answer.ok and not reading.answer.terminal
    assert "d3v1ce" not in repr(reading)
    over = exchange(
        FORM, DEVICE, "HTTP/1.1 400 Bad Request\nContent-Type: application/json", {"error": "expired_token"}
    )
    refused = read(over)
    assert refused.answer is not None and (refused.answer.ok, refused.answer.cause) == (False, "auth-failed")


def test_a_client_that_is_the_url_of_its_metadata() -> None:
    recogniser = Recogniser()
    target = AUTHORIZE.replace("client_id=x", "client_id=https%3A%2F%2Fc.example%2Fc.json")
    reading = read(at("as.example", get(target, "HTTP/1.1 302 Found\nLocation: http://l")), recogniser)
    assert reading.client == "metadata-document"
    document = recogniser.read(at("c.example", get("/c.json", JSON, {"client_id": "https://c.example/c.json"})))
    assert document is not None and (document.operation, document.role) == ("client-metadata", Role.OTHER)
    for short in ("https%3A%2F%2Fc.example", "http%3A%2F%2Fc.example%2Fc.json"):
        target = AUTHORIZE.replace("client_id=x", f"client_id={short}")
        assert read(at("as.example", get(target, "HTTP/1.1 302 Found\nLocation: http://l"))).client is None


def test_the_browser_comes_back_to_the_client() -> None:
    recogniser = Recogniser()
    target = AUTHORIZE.replace("redirect_uri=http%3A%2F%2Fl", "redirect_uri=http%3A%2F%2Flocalhost%3A3030%2Fcb")
    read(at("as.example", get(target, "HTTP/1.1 302 Found\nLocation: http://l")), recogniser)
    back = read(at("localhost:3030", get("/cb?code=c0de&state=st4te", JSON, b"{}")), recogniser)
    assert (back.operation, back.role) == ("callback", Role.AUTH)
    assert "c0de" not in repr(back)
    assert recogniser.read(at("localhost:3030", get("/cb", JSON, b"{}"))) is None


def test_endpoints_that_metadata_names() -> None:
    recogniser = Recogniser()
    places = {"revocation_endpoint": "revoke", "introspection_endpoint": "introspect", "userinfo_endpoint": "userinfo"}
    known = {**METADATA, **{name: f"https://as.example/{name}" for name in places}}
    version = "MCP-Protocol-Version: 2025-11-25\n"
    read(at("as.example", get("/.well-known/oauth-authorization-server", JSON, known, headers=version)), recogniser)
    for name, operation in places.items():
        assert read(at("as.example", post(b"token=x", b"{}", path=f"/{name}")), recogniser).operation == operation
