"""What a counterpart served, request by request: the other end of a pooled connection.

Behind a reverse proxy the counterpart sees only the proxy. To tell which exchange of the proxy's log was which here,
each response gets a running number in a header, which the proxy logs and takes off again; no request is touched.
"""

from __future__ import annotations

from typing import Any

HEADER = b"x-exchange"


class Served:
    """ASGI application that numbers the exchanges of the one inside."""

    def __init__(self, inner: Any, numbered: bool) -> None:
        self._inner = inner
        self._numbered = numbered
        self._on_connection: dict[tuple[str, int], int] = {}
        self.rows: list[dict[str, Any]] = []
        """Exchange number, port of the proxy's connection, position on it (0-based), method and path."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not self._numbered:
            await self._inner(scope, receive, send)
            return
        client = tuple(scope["client"])
        ordinal = self._on_connection.get(client, 0)
        self._on_connection[client] = ordinal + 1
        number = len(self.rows)
        row = {"exchange": number, "port": client[1], "ordinal": ordinal}
        self.rows.append({**row, "method": scope["method"], "path": scope["path"]})

        async def numbered_send(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], (HEADER, str(number).encode())]}
            await send(message)

        await self._inner(scope, receive, numbered_send)
