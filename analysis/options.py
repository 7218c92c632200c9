"""What the caller of an analysis may choose; one record, the same for the command line and the library."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from types import NoneType
from typing import Any

HOPS = ("merged", "all")
TOKENIZERS = ("o200k_base", "cl100k_base", "none")
MAX_IDLE_S = 1_000_000_000
"""30 years: no capture is longer, and as ns it fits 64 bits."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Options:
    """Choices that change numbers. Defaults are those of the command line; `Options.of` checks the values."""

    port: tuple[int, ...] = ()
    """Keep connections of which either end has one of these TCP ports; empty keeps all."""
    host: tuple[str, ...] = ()
    """Keep connections of which either end has one of these addresses or names; empty keeps all."""
    agent_host: tuple[str, ...] = ()
    """Names or addresses of counterparts that are agents, which TLS that cannot be read does not tell."""
    since_ns: int | None = None
    """Leave out packets before this time, ns since the Unix epoch."""
    until_ns: int | None = None
    """Leave out packets at or after this time, ns since the Unix epoch."""
    require: tuple[str, ...] = ()
    """Capabilities that must be offered (MCP tool names, A2A skill ids and names, ACP agent names); else `rejected`."""
    hops: str = "merged"
    """`merged`: a session seen on several legs is one handshake; `all`: each leg is one."""
    idle_s: float = 30.0
    """Silence in seconds after which a client without session ids starts anew."""
    tokenizer: str = "o200k_base"
    """`o200k_base`, `cl100k_base` or `none`."""
    tokenizer_tables: str | None = None
    """Folder with tables of tokenizers that hsa does not ship; None when there is none."""
    price: float = 3.0
    """USD per million tokens."""
    context: int = 200_000
    """Tokens of the context window that `context_share` is a share of."""
    keylog: str | None = None
    """NSS key log file; secrets inside a pcapng need none."""
    reorder_window_ns: int = 1_000_000_000
    """How far a record may come behind a later one and still be put in order, ns."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Options:
        """Options from keyword arguments; lists become tuples, a single port or name a tuple of one.

        Raises `TypeError` for an unknown name and `ValueError` for a value out of range.
        """
        known = {f.name for f in fields(cls)}
        for name in values:
            if name not in known:
                raise TypeError(f"unknown option {name!r}; the options are {', '.join(sorted(known))}")
        given = dict(values)
        for name in ("port", "host", "agent_host", "require"):
            if name in given:
                given[name] = _tuple(given[name])
        for name in ("keylog", "tokenizer_tables"):
            if isinstance(given.get(name), os.PathLike):
                given[name] = os.fspath(given[name])
        options = cls(**given)
        options.check()
        return options

    def check(self) -> None:
        """Raise `ValueError`, in one line for people, when a value is out of range."""
        for name, kinds, wanted in _TYPES:
            value = getattr(self, name)
            for one in value if name in ("port", "host", "agent_host", "require") else (value,):
                if not isinstance(one, kinds) or isinstance(one, bool):
                    raise TypeError(f"{name} is {one!r}; it must be {wanted}")
        for port in self.port:
            if not 0 < port < 65536:
                raise ValueError(f"port {port} is not between 1 and 65535")
        if self.hops not in HOPS:
            raise ValueError(f"hops is {self.hops!r}; it can be {' or '.join(HOPS)}")
        if self.tokenizer not in TOKENIZERS:
            raise ValueError(f"tokenizer is {self.tokenizer!r}; it can be {', '.join(TOKENIZERS)}")
        if not 0 < self.idle_s <= MAX_IDLE_S:
            raise ValueError(f"idle must be more than 0 seconds, and {MAX_IDLE_S:,} at most")
        if not 0 <= self.price < float("inf"):
            raise ValueError("price must be 0 or more")
        if self.context < 1:
            raise ValueError("context must be at least 1 token")
        if self.reorder_window_ns < 0:
            raise ValueError("the reorder window must be 0 or more")
        if self.since_ns is not None and self.until_ns is not None and self.since_ns >= self.until_ns:
            raise ValueError("since is not before until")


_TEXT, _WHOLE, _NUMBER = ((str,), "text"), ((Integral,), "a whole number"), ((Real,), "a number")
_OPTIONAL_TEXT, _OPTIONAL_WHOLE = ((str, NoneType), "text or None"), ((Integral, NoneType), "a whole number or None")
_TYPES: tuple[tuple[str, tuple[type, ...], str], ...] = (
    ("port", *_WHOLE),
    ("host", *_TEXT),
    ("agent_host", *_TEXT),
    ("since_ns", *_OPTIONAL_WHOLE),
    ("until_ns", *_OPTIONAL_WHOLE),
    ("require", *_TEXT),
    ("hops", *_TEXT),
    ("idle_s", *_NUMBER),
    ("tokenizer", *_TEXT),
    ("tokenizer_tables", *_OPTIONAL_TEXT),
    ("price", *_NUMBER),
    ("context", *_WHOLE),
    ("keylog", *_OPTIONAL_TEXT),
    ("reorder_window_ns", *_WHOLE),
)
"""Name, types and the words for them."""


def _tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
