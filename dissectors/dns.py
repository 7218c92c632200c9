"""DNS as far as it tells which name an address was looked up by, and how long the look-up took.

Only the question and the A and AAAA answers are read; the answer to `www.example` through any number of CNAME
records still belongs to `www.example`, the name the client asked for. Sources: RFC 1035 sections 4.1 and 4.2.2,
RFC 3596 section 2.2.
"""

from __future__ import annotations

import socket
from collections import deque
from dataclasses import dataclass, field

MAX_NAMES = 50_000
"""Addresses whose name is remembered; the oldest are forgotten beyond it."""
MAX_PENDING = 10_000
"""Questions that wait for their answer."""
MAX_LOOKUPS = 20_000
"""Look-ups kept, latest last."""
MAX_RECORDS = 256
"""Answer records read of one message."""
MAX_POINTERS = 64
"""Compression pointers followed in one name: no legitimate name has more labels."""
MAX_NAME = 255
"""RFC 1035 section 2.3.4."""

_A, _AAAA, _IN = 1, 28, 1


@dataclass(slots=True)
class Lookup:
    """One question and its answer."""

    client: str
    """Address that asked."""
    server: str
    """Name server."""
    name: str
    """As asked, lower case, without the final dot."""
    asked_ns: int
    """First time it was asked."""
    answered_ns: int | None = None
    """None while unanswered."""
    code: int | None = None
    """Response code: 0 no error, 3 no such name, ..."""
    addresses: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class DnsMessage:
    """What is read of one message."""

    number: int
    """Its id."""
    answer: bool
    code: int
    name: str
    kind: int
    """Type of the question: 1 A, 28 AAAA, ..."""
    addresses: tuple[str, ...]


@dataclass(slots=True)
class Names:
    """Names of addresses and the look-ups that told them; all bounded."""

    lookups: deque[Lookup] = field(default_factory=lambda: deque(maxlen=MAX_LOOKUPS))
    """In order of the first question."""
    malformed: int = 0
    """Messages on the DNS port that are none."""
    _names: dict[str, str] = field(default_factory=dict)
    _pending: dict[tuple[str, str, int, int, str, int], Lookup] = field(default_factory=dict)

    def name_of(self, address: str) -> str | None:
        """The name that was asked for when an answer last gave this address; None when none did."""
        return self._names.get(address)

    def looked_up(self, client: str, address: str, before_ns: int, window_ns: int) -> Lookup | None:
        """The answered look-up by which `client` last learned `address`, in the window before `before_ns`."""
        for lookup in reversed(self.lookups):
            if lookup.asked_ns < before_ns - window_ns:
                return None
            if lookup.client == client and address in lookup.addresses and (lookup.answered_ns or 0) <= before_ns:
                return lookup
        return None

    def message(self, data: bytes, t_ns: int, client: str, server: str, port: int) -> DnsMessage | None:
        """Take one message between `client` (from its `port`) and the name server `server`."""
        message = parse(data)
        if message is None:
            self.malformed += 1
            return None
        key = (client, server, port, message.number, message.name, message.kind)
        lookup = self._pending.get(key)
        if not message.answer:
            if lookup is None:
                lookup = Lookup(client, server, message.name, t_ns)
                if len(self._pending) >= MAX_PENDING:
                    del self._pending[next(iter(self._pending))]
                self._pending[key] = lookup
                self.lookups.append(lookup)
            return message
        if lookup is not None:
            del self._pending[key]
            lookup.answered_ns, lookup.code, lookup.addresses = t_ns, message.code, message.addresses
        for address in message.addresses:
            self._names.pop(address, None)
            if len(self._names) >= MAX_NAMES:
                del self._names[next(iter(self._names))]
            self._names[address] = message.name
        return message


def parse(data: bytes) -> DnsMessage | None:
    """One message; None for bytes that are none. Records behind the first that cannot be read are left out."""
    if len(data) < 12:
        return None
    flags = data[2] << 8 | data[3]
    questions, answers = data[4] << 8 | data[5], data[6] << 8 | data[7]
    if questions != 1 or flags >> 11 & 15:  # anything but one standard question
        return None
    found = _name(data, 12)
    if found is None or found[1] + 4 > len(data):
        return None
    name, at = found
    kind = data[at] << 8 | data[at + 1]
    at += 4
    addresses: list[str] = []
    for _ in range(min(answers, MAX_RECORDS)):
        owner = _name(data, at)
        if owner is None or owner[1] + 10 > len(data):
            break
        at = owner[1]
        type_, class_ = data[at] << 8 | data[at + 1], data[at + 2] << 8 | data[at + 3]
        size = data[at + 8] << 8 | data[at + 9]
        body = data[at + 10 : at + 10 + size]
        at += 10 + size
        if len(body) < size:
            break
        if class_ == _IN and (type_, size) in ((_A, 4), (_AAAA, 16)):
            addresses.append(socket.inet_ntop(socket.AF_INET if type_ == _A else socket.AF_INET6, body))
    return DnsMessage(data[0] << 8 | data[1], bool(flags & 0x8000), flags & 15, name, kind, tuple(addresses))


def _name(data: bytes, at: int) -> tuple[str, int] | None:
    """(name, offset behind it) of the possibly compressed name at `at`; None where none can be read."""
    labels: list[str] = []
    size = 0
    behind = -1
    pointers = 0
    while at < len(data):
        length = data[at]
        if length >= 0xC0:
            pointers += 1
            if at + 1 >= len(data) or pointers > MAX_POINTERS:
                return None
            if behind < 0:
                behind = at + 2
            at = (length & 0x3F) << 8 | data[at + 1]
            continue
        if length >= 0x40:
            return None
        if length == 0:
            return ".".join(labels).lower(), behind if behind >= 0 else at + 1
        size += length + 1
        label = data[at + 1 : at + 1 + length]
        if size > MAX_NAME or len(label) < length:
            return None
        labels.append(label.decode("latin-1"))
        at += 1 + length
    return None


class DnsStream:
    """DNS over TCP: each message with its length ahead of it (RFC 1035 section 4.2.2), one direction of a stream."""

    def __init__(self, names: Names, client: str, server: str, port: int) -> None:
        self._names = names
        self._who = client, server, port
        self._bytes = b""
        self._lost = False

    def push(self, data: bytes, t_ns: int) -> None:
        """The next bytes, the last of which were seen at `t_ns`."""
        if self._lost:
            return
        self._bytes += data
        while len(self._bytes) >= 2:
            size = self._bytes[0] << 8 | self._bytes[1]
            if len(self._bytes) < size + 2:
                return
            message, self._bytes = self._bytes[2 : size + 2], self._bytes[size + 2 :]
            if self._names.message(message, t_ns, *self._who) is None:
                self._lost = True  # no telling where the next one begins
                self._bytes = b""
                return

    def gap(self) -> None:
        """Bytes are missing; where the next message begins cannot be known."""
        self._lost, self._bytes = True, b""


def is_dns(data: bytes) -> bool:
    """Whether the first bytes of a direction look like DNS over TCP: a length, and a header with one question."""
    return len(data) >= 14 and data[:2] >= b"\x00\x11" and data[6:8] == b"\x00\x01" and not data[4] & 0x78
