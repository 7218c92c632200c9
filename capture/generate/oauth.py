"""Both sides of the MCP SDK's authorization: a server that gives a token to everyone, a client without a person.

The client's HTTP layer does what the SDK makes it do. Where a person would log in with a browser, the authorization
page is fetched with an HTTP client of its own, which is in nobody's books.
"""

from __future__ import annotations

import secrets
import time
import warnings
from typing import Any
from urllib.parse import parse_qs, urlsplit

SCOPE = "user"
LIFETIME_S = 3600
SHORT_S = 1
"""Lifetime of a token that is to be renewed."""
TAKEN_AFTER = 3
"""Requests that a client's first token is good for where it is to be taken back, or its scope no longer suffices:
discovery, listing, a call."""
CALLBACK = "http://localhost:3030/callback"
"""Nobody listens there: the browser's last step is read, not taken."""


class _Provider:
    """An authorization server in memory, as the SDK's server wants it."""

    def __init__(self, course: str | None) -> None:
        self._course = course
        self._clients: dict[str, Any] = {}
        self._codes: dict[str, Any] = {}
        self._tokens: dict[str, Any] = {}
        self._refresh: dict[str, Any] = {}
        self._uses: dict[str, int] = {}
        self._renewed: set[str] = set()
        """Clients whose first token has had its time."""

    async def get_client(self, client_id: str) -> Any:
        return self._clients.get(client_id)

    async def register_client(self, client_info: Any) -> None:
        self._clients[client_info.client_id] = client_info

    async def authorize(self, client: Any, params: Any) -> str:
        from mcp.server.auth.provider import AuthorizationCode, construct_redirect_uri

        code = secrets.token_hex(20)
        self._codes[code] = AuthorizationCode(
            code=code,
            client_id=client.client_id,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            expires_at=time.time() + LIFETIME_S,
            scopes=params.scopes or [SCOPE],
            code_challenge=params.code_challenge,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> Any:
        return self._codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: Any) -> Any:
        del self._codes[authorization_code.code]
        return self._give(client.client_id, authorization_code.scopes, authorization_code.resource)

    def _give(self, client_id: str, scopes: list[str], resource: str | None) -> Any:
        from mcp.server.auth.provider import AccessToken, RefreshToken
        from mcp.shared.auth import OAuthToken

        token = secrets.token_hex(32)
        self._tokens[token] = AccessToken(
            token=token,
            client_id=client_id,
            scopes=scopes,
            expires_at=int(time.time()) + LIFETIME_S,
            resource=resource,
        )
        given = OAuthToken(access_token=token, token_type="Bearer", expires_in=LIFETIME_S, scope=" ".join(scopes))
        if self._course == "refresh":
            again = secrets.token_hex(32)
            self._refresh[again] = RefreshToken(token=again, client_id=client_id, scopes=scopes)
            given.expires_in, given.refresh_token = SHORT_S, again
        return given

    async def load_access_token(self, token: str) -> Any:
        found = self._tokens.get(token)
        if found is None or self._course not in ("renewal", "step-up"):
            return found
        if found.client_id in self._renewed and not (self._course == "step-up" and token in self._uses):
            return found
        self._uses[token] = self._uses.get(token, 0) + 1
        if self._uses[token] <= TAKEN_AFTER:
            return found
        self._renewed.add(found.client_id)
        if self._course == "step-up":
            return found.model_copy(update={"scopes": []})
        del self._tokens[token]
        return None

    async def load_refresh_token(self, client: Any, refresh_token: str) -> Any:
        return self._refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: Any, scopes: list[str]) -> Any:
        del self._refresh[refresh_token.token]
        return self._give(refresh_token.client_id, scopes or refresh_token.scopes, None)

    async def revoke_token(self, token: Any) -> None:
        self._tokens.pop(token.token, None)


def server_options(url: str, course: str | None = None) -> dict[str, Any]:
    """What the SDK's server is given so that it wants a token; `url` is where clients find it, `course` that of the
    cell."""
    from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
    from pydantic import AnyHttpUrl

    registration = ClientRegistrationOptions(enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a default that will change
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(url),
            resource_server_url=AnyHttpUrl(f"{url}/mcp"),
            client_registration_options=registration,
            required_scopes=[SCOPE],
        )
    return {"auth_server_provider": _Provider(course), "auth": settings}


class _Storage:
    """Forgets nothing while the contact lasts."""

    def __init__(self) -> None:
        self._tokens: Any = None
        self._client: Any = None

    async def get_tokens(self) -> Any:
        return self._tokens

    async def set_tokens(self, tokens: Any) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> Any:
        return self._client

    async def set_client_info(self, client_info: Any) -> None:
        self._client = client_info


def client_auth(url: str) -> Any:
    """The SDK client's authorization for the endpoint `url`, by the whole flow: nothing is known before."""
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

    shown: list[str] = []

    async def browse(page: str) -> None:
        import httpx

        async with httpx.AsyncClient() as browser:
            answer = await browser.get(page)
            shown.append(answer.headers["location"])

    async def come_back() -> Any:
        query = parse_qs(urlsplit(shown.pop()).query)
        found = {name: values[0] for name, values in query.items() if name in ("code", "state", "iss")}
        return AuthorizationCodeResult(**found)

    metadata: Any = OAuthClientMetadata.model_validate(
        {
            "client_name": "hsa",
            "redirect_uris": [CALLBACK],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "scope": SCOPE,
        }
    )
    storage: Any = _Storage()
    return OAuthClientProvider(url, metadata, storage, browse, come_back)
