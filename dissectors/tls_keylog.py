"""TLS secrets by client random, from NSS key logs: files, and the secrets blocks of pcapng captures.

A key log has one secret a line: a label, the client random and the secret in hex. Comments, CRLF, lines twice and other
people's secrets are ordinary. Secrets blocks may stand anywhere in a capture: what was read so far is looked at first,
and only when a client random is unknown the captures are searched ahead, once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

MAX_RANDOMS = 1_000_000
"""Connections whose secrets are kept."""
_LINE = re.compile(rb"(?m)^[ \t]*([A-Z0-9_]{1,64})[ \t]+([0-9a-fA-F]{64})[ \t]+([0-9a-fA-F]{32,256})[ \t]*\r?$")
LABELS = (
    *("CLIENT_RANDOM", "CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET"),
    *("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0", "CLIENT_EARLY_TRAFFIC_SECRET"),
)
"""Labels that decrypt something; all others are passed over."""
_NAMES = {label.encode(): label for label in LABELS}

Secrets = dict[str, bytes]
"""Label to secret."""


class KeyLog:
    """All secrets known so far."""

    def __init__(
        self,
        logs: Iterable[bytes] = (),
        more: Callable[[], Iterable[bytes]] = tuple,
        ahead: Callable[[], Iterable[bytes]] = tuple,
    ) -> None:
        """`logs` are key logs. `more()` gives those that have been met in the captures since it was last called;
        `ahead()`, called once, those that stand further on in them."""
        self._secrets: dict[bytes, Secrets] = {}
        self._more = more
        self._ahead: Callable[[], Iterable[bytes]] | None = ahead
        self.dropped = 0
        """Secrets beyond `MAX_RANDOMS` connections."""
        for log in logs:
            self.add(log)

    def add(self, log: bytes) -> None:
        """Take in a key log."""
        known = self._secrets
        for line in _LINE.finditer(log):
            label, random, secret = line.groups()
            name = _NAMES.get(label)
            if name is None:
                continue
            key = bytes.fromhex(random.decode())
            found = known.get(key)
            if found is None:
                if len(known) >= MAX_RANDOMS:
                    self.dropped += 1
                    continue
                found = known[key] = {}
            found.setdefault(name, bytes.fromhex(secret.decode()) if len(secret) % 2 == 0 else b"")

    def find(self, client_random: bytes) -> Secrets | None:
        """Secrets of the connection; None when there are none anywhere."""
        found = self._secrets.get(client_random)
        if found is not None:
            return found
        for log in self._more():
            self.add(log)
        if client_random not in self._secrets and self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            for log in ahead():
                self.add(log)
        return self._secrets.get(client_random)
