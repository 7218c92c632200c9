"""DNS as far as it tells names and how long looking them up took (RFC 1035, RFC 3596)."""

from __future__ import annotations


class Names:
    """Names of addresses, as answered by name servers in the capture."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def message(self, data: bytes, t_ns: int, client: str, server: str, port: int, *, over_tcp: bool = False) -> None:
        """One DNS message."""

    def name_of(self, address: str) -> str | None:
        """The name that was looked up last with this address in its answer."""
        return self._names.get(address)
