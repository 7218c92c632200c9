"""TLS on one stream: what its records tell, and, with secrets, the stream inside.

Strategy: records of both directions are cut apart (`tls_records`); hellos say who speaks to whom and how; with the
secrets of the ClientHello's random (`tls_keylog`) records are opened (`tls_suites`), and what they hold goes to the
stream inside, each byte with the place of its record. TLS 1.3 changes keys on the way (early data, handshake,
application, KeyUpdate): the keys of a direction stand in a row, and a record that the present one does not open is
tried with the next (`tls_keys`). A record that cannot be opened is a hole in the stream inside, and so is one that was
not seen: the numbers of those that open tell. The facts are noted with keys and without.

Sources: RFC 8446, RFC 5246, RFC 7366; SSLKEYLOGFILE format (RFC 9850).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from hsa.dissectors.connection import Tls
from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Gap, Item, Seen
from hsa.dissectors.nesting import Nested, Output, Setting
from hsa.dissectors.sealed import Span
from hsa.dissectors.tls_hello import (
    CERTIFICATE,
    CLIENT_HELLO,
    ENCRYPTED_EXTENSIONS,
    FINISHED,
    KEY_UPDATE,
    SERVER_HELLO,
    VERSIONS,
    Hello,
    alpn,
    certificate_subject,
    read_extensions,
    read_hello,
)
from hsa.dissectors.tls_keylog import Secrets
from hsa.dissectors.tls_keys import Keys
from hsa.dissectors.tls_records import APPLICATION, HANDSHAKE, Record, Records
from hsa.dissectors.tls_suites import SUITES, Agreed12, Opener, Opener13, Suite, finished_size, openers_12, overhead
from hsa.dissectors.tls_turns import Turns

HELD_BYTES = 256 * 1024
"""Bytes of a direction that wait for the other one's hello."""
MESSAGE_BYTES = 2**18
"""Longest handshake message put together: certificate chains are shorter."""
RECORD_BYTES = 256
"""What a record that waits counts for, beside its body: records may be empty."""
END_OF_EARLY_DATA_BYTES = 4 + 17
"""Body of a record with nothing but this message."""
CLIENT_FLIGHT = 8
"""Encrypted records in which a client's Finished is looked for (TLS 1.3): a certificate comes before it."""
CHANGE_CIPHER, ALERT = 20, 21
TLS_13, TLS_12 = 0x0304, 0x0303
NO_KEY = "TLS: no key for its client random"
LATE = "TLS: begins after its ClientHello, keys cannot help"
NO_HELLO = "TLS: its ClientHello cannot be read"
HANDSHAKE_ONLY = "TLS: the key log has its handshake secrets only"
BAD_TAG = "TLS: its secrets do not open it (bad tag)"
ONE_SIDED = "TLS: one hello was not captured"
ALL = 2**62
"""Records told to be missing by a hole that may hide any number."""


@dataclass(slots=True, eq=False)
class _Side:
    """One direction."""

    direction: Direction
    records: Records
    keys: Keys = field(default_factory=Keys)
    sealed: bool = False
    """Its records are encrypted from here on."""
    messages: bytearray = field(default_factory=bytearray)
    """Start of a handshake message that goes on."""
    waiting: list[Record] = field(default_factory=list)
    """Encrypted records from before the server's hello."""
    waiting_bytes: int = 0
    opened: bool = False
    """Application data of it was decrypted."""
    told: int = 0
    """Records since the last that was opened of which the stream inside knows that they are missing."""
    late: bool = False
    """The stream inside begins behind a hole."""


class TlsReader:
    """Reader of one TLS stream."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._facts = setting.connection.tls = Tls()
        up, down = setting.mid_start
        self._sides = (_Side(C2S, Records(up)), _Side(S2C, Records(down)))
        self._hello: Hello | None = None
        self._server: Hello | None = None
        self._version = 0
        self._suite: Suite | None = None
        self._secrets: Secrets | None = None
        self._late = up
        """The ClientHello was not captured."""
        self._held: list[Item] = []
        self._held_bytes = 0
        self._inner: Nested | None = None
        self._out: list[Output] = []
        self._openers_12: tuple[Opener, Opener] | None = None
        self._undecided = True
        """What the client sends early waits: for the server's hello, and whether it takes early data."""
        self._refused = False
        """It does not."""
        self._finished = (False, False)
        """The Finished of a direction has passed (TLS 1.3)."""
        self._flight = 0
        """Encrypted records of the client up to its Finished."""
        self._turns = Turns()
        self._span: Span | None = None
        """Of application data that is not decrypted."""

    # ------------------------------------------------------------------ entry points

    def push(self, direction: Direction, item: Item) -> list[Output]:
        """As `Reader.push`."""
        self._out = []
        if direction is S2C and self._hello is None and not self._late:
            self._held.append(item)
            self._held_bytes += item.size if isinstance(item, Chunk) else 0
            if self._held_bytes > HELD_BYTES:
                self._late = True
                self._release()
        else:
            self._push(direction, item)
            if self._held and self._hello is not None:
                self._release()
        if not self._facts.decrypted and any(self._facts.application_bytes):
            self._note_sealed(item.seen)
        return self._out

    def end(self, direction: Direction | None, how: str, seen: Seen) -> list[Output]:
        """As `Reader.end`."""
        self._out = []
        if direction is None:
            if self._held:
                self._release()
            if self._undecided and self._server is not None:
                self._let_go()
            if self._server is None and self._hello is not None:
                self._late = True
            for side in self._sides if self._inner is not None else ():
                if side.keys.unsure or side.records.unsure:
                    self._hole(side, -1, seen, ALL)
        if self._inner is not None:
            self._out += self._inner.end(direction, how, seen)
        if direction is None:
            self._settle(seen)
        return self._out

    def give_up(self) -> list[Output]:
        """As `Reader.give_up`."""
        return self._inner.give_up() if self._inner is not None else []

    def _release(self) -> None:
        held, self._held = self._held, []
        for item in held:
            self._push(S2C, item)

    def _note_sealed(self, seen: Seen) -> None:
        if self._span is None:
            connection = self._setting.connection
            ends = (connection.client.address, connection.server.text, self._facts.server_name or "")
            self._span = self._setting.run.sealed.begin(ends, seen.t_first_ns)
        self._span.end = max(self._span.end, seen.t_last_ns)

    def _settle(self, seen: Seen) -> None:
        """The stream is over: why it was not decrypted, if it was not."""
        facts = self._facts
        facts.reason = None if facts.decrypted else self._reason()
        if facts.reason is not None:
            turns = self._turns
            turns.lost = turns.lost or any(side.records.lost or side.records.skipped for side in self._sides)
            turns.lost = turns.lost or any(self._setting.mid_start) or any(self._setting.connection.gaps)
            estimate = turns.estimate(facts.protocol, facts.offered)
            self._setting.run.opaque.add(self._setting.connection, facts, estimate)
            self._out.append(Damage("undecoded", "tls", None, seen, 0, "", facts.reason))

    def _reason(self) -> str | None:
        facts = self._facts
        if self._hello is None:
            up, down = self._setting.mid_start
            return LATE if up or (down and not facts.records[C2S]) else NO_HELLO
        if self._server is None:
            return ONE_SIDED if any(facts.application_bytes) else "TLS: the handshake was not answered"
        if not any(facts.application_bytes):
            return "TLS: the handshake failed" if facts.alert is not None else "TLS: no application data"
        if self._version not in (TLS_12, TLS_13):
            return f"TLS {facts.version or '?'}: not decrypted"
        if self._suite is None:
            return f"TLS: suite {facts.suite} is not decrypted"
        if self._secrets is None:
            return NO_KEY
        names = set(self._secrets)
        if self._version == TLS_13 and not names & {"CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"}:
            return HANDSHAKE_ONLY if any("HANDSHAKE" in name for name in names) else NO_KEY
        return BAD_TAG

    # ------------------------------------------------------------------ records

    def _push(self, direction: Direction, item: Item) -> None:
        side = self._sides[direction]
        if isinstance(item, Gap):
            record = side.records.gap(item)
            side.messages.clear()
            if record is not None:
                self._record(side, record)
            elif side.records.lost:
                side.keys.unsure = True
                if side.keys.begun:
                    self._hole(side, -1, item.seen, ALL)
            return
        records = side.records
        for record in records.push(item):
            self._record(side, record)
        if records.passed:
            self._facts.records[direction] += records.passed
            self._facts.application_bytes[direction] += records.passed_bytes
            records.passed = records.passed_bytes = 0

    def _record(self, side: _Side, record: Record) -> None:
        facts = self._facts
        facts.records[side.direction] += 1
        side.keys.unsure = side.keys.unsure or record.unsure
        if record.kind == APPLICATION:
            self._sealed(side, record)
        elif record.kind == CHANGE_CIPHER:
            if self._version and self._version < TLS_13:
                side.sealed = True
                if self._openers_12 is not None:
                    side.keys.put([self._openers_12[side.direction]], before=1)
        elif side.sealed and self._version < TLS_13:
            self._sealed(side, record)
        elif record.body is not None:
            self._plain(side, record.kind, record.body, record.seen)
        if facts.hello_ns is None and side.direction is C2S and record.kind == HANDSHAKE:
            facts.hello_ns = record.seen.t_first_ns

    def _plain(self, side: _Side, kind: int, body: bytes, seen: Seen) -> None:
        """What a record holds, not encrypted or not any more."""
        if kind == HANDSHAKE:
            self._messages(side, body, seen)
        elif kind == ALERT and len(body) == 2 and body[1] != 0 and body[0] == 2 and self._facts.alert is None:
            self._facts.alert = body[1]

    def _sealed(self, side: _Side, record: Record) -> None:
        """An encrypted record."""
        facts = self._facts
        if side.direction is C2S and self._undecided and self._hello is not None and not self._late:
            side.waiting_bytes += record.size + RECORD_BYTES
            if side.waiting_bytes <= HELD_BYTES:
                side.waiting.append(record)
            else:
                self._count_sealed(side, record)
            return
        keys = side.keys
        if not keys and self._openers_12 is not None:  # ChangeCipherSpec was not seen
            keys.put([self._openers_12[side.direction]], before=1)
            keys.unsure = True
        found = None
        if record.broken or record.body is None:
            keys.skip()
        else:
            found = keys.open(record)
            if found is None and self._refused and not keys.final:  # early data: the server passes over it too
                keys.unsure = False
                return
        if found is None:
            if side.direction is S2C and self._undecided and self._server is not None:
                self._let_go()  # nobody will know
            self._count_sealed(side, record)
            if not keys:
                self._hole(side, -1, record.seen, ALL)
            elif keys.begun and (record.kind == APPLICATION or self._version == TLS_13):
                self._hole(side, keys.holds(record.size), record.seen, 1)
            return
        told = found[0] == APPLICATION or keys.final
        if told and (keys.missed > side.told or (keys.moved and side.opened)):
            self._hole(side, -1, record.seen, keys.missed)
        side.told = 0
        kind, text = found
        if kind == APPLICATION:
            side.opened = facts.decrypted = True
            facts.application_bytes[side.direction] += len(text)
            if text:
                self._inside(side.direction, Chunk(text, record.seen))
        else:
            self._plain(side, kind, text, record.seen)

    def _count_sealed(self, side: _Side, record: Record) -> None:
        """Without a key: what comes before the client's Finished is the handshake, or early data; all else may be
        application data."""
        if record.kind != APPLICATION or self._shakes_hands(side, record):
            self._note_done(record.seen)
        else:
            self._facts.application_bytes[side.direction] += record.size
            self._turns.record(side.direction, record.size)
            side.records.bulk = not self._readable
        if not self._readable:
            for one in self._sides:
                one.records.keep = False
                one.records.tell = partial(self._turns.record, one.direction)

    def _shakes_hands(self, side: _Side, record: Record) -> bool:
        """Whether a record that nobody can open belongs to a handshake of TLS 1.3. A Finished is known by its size;
        what the server says once the client has begun to end its handshake is no part of it."""
        if self._version != TLS_13 or any(one.opened for one in self._sides):
            return False
        early = self._facts.early_data
        ends = self._suite is None or record.size == finished_size(self._suite) or record.unsure
        if side.direction is S2C:
            if self._flight and not early:
                self._finished = (True, True)
            if self._finished[C2S] or self._finished[S2C]:
                return False
            self._finished = (False, early and ends)
            return True
        if self._finished[C2S]:
            return False
        self._flight += 1
        if ends or self._flight >= CLIENT_FLIGHT:
            self._finished = (True, True)
        elif early and record.size > END_OF_EARLY_DATA_BYTES:
            return False
        return True

    @property
    def _readable(self) -> bool:
        """Something may still be opened."""
        return self._hello is not None and (self._server is None or any(side.keys for side in self._sides))

    def _note_done(self, seen: Seen) -> None:
        facts = self._facts
        if not any(facts.application_bytes):
            facts.done_ns = max(facts.done_ns or 0, seen.t_last_ns)

    # ------------------------------------------------------------------ opening

    def _hole(self, side: _Side, size: int, seen: Seen, records: int) -> None:
        """So many records, with so many bytes in them, are missing in the stream inside."""
        if self._inner is None:
            side.late = True
        elif side.told < ALL and size:
            side.told += records
            self._out += self._inner.push(side.direction, Gap(size, seen))

    def _inside(self, direction: Direction, item: Item) -> None:
        if self._inner is None:
            setting = self._setting
            named = setting.connection.kind == "tls"
            up, down = self._sides
            inside = setting.inside(mid_start=(up.late, down.late), tls=self._facts)
            self._inner = Nested(inside, "tls", where=" (in TLS)", naming=named)
        self._out += self._inner.push(direction, item)

    # ------------------------------------------------------------------ handshake

    def _messages(self, side: _Side, body: bytes, seen: Seen) -> None:
        data = side.messages
        data += body
        while len(data) >= 4:
            size = int.from_bytes(data[1:4], "big")
            if size > MESSAGE_BYTES:
                data.clear()
                return
            if 4 + size > len(data):
                return
            kind, message = data[0], bytes(data[4 : 4 + size])
            del data[: 4 + size]
            self._message(side, kind, message, seen)

    def _message(self, side: _Side, kind: int, body: bytes, seen: Seen) -> None:
        facts = self._facts
        if kind != KEY_UPDATE and kind != 4:
            self._note_done(seen)
        if kind == CLIENT_HELLO and side.direction is C2S:
            self._client_hello(body)
        elif kind == SERVER_HELLO and side.direction is S2C:
            self._server_hello(body)
        elif kind == ENCRYPTED_EXTENSIONS and self._version == TLS_13:
            extensions = read_extensions(body)
            chosen = alpn(extensions.get(16))
            facts.protocol = chosen[0] if chosen else None
            facts.early_accepted = facts.early_data and 42 in extensions
            if self._undecided and not facts.early_accepted:
                self._refused = True
                self._sides[C2S].keys.refuse()
            if self._undecided:
                self._let_go()
        elif kind == CERTIFICATE:
            if side.direction is C2S:
                facts.client_certificate = len(body) > 4
            elif facts.subject is None:
                facts.subject = certificate_subject(body, self._version)
        elif kind == FINISHED and self._version == TLS_13:
            side.keys.advance()
            if side.direction is C2S:
                self._finished = (True, True)
        elif kind == KEY_UPDATE:
            side.keys.update()

    def _client_hello(self, body: bytes) -> None:
        hello = read_hello(CLIENT_HELLO, body)
        if hello is None or (self._hello is not None and self._server is not None):
            return
        facts = self._facts
        if self._hello is None:
            facts.client_random = hello.random
        self._hello = hello
        self._no_bulk()
        facts.server_name = hello.server_name or facts.server_name
        facts.offered = tuple(hello.alpn)
        facts.early_data = facts.early_data or 42 in hello.extensions
        facts.encrypted_hello = 0xFE0D in hello.extensions

    def _no_bulk(self) -> None:
        """What follows a hello may be readable."""
        for side in self._sides:
            side.records.bulk = False

    def _server_hello(self, body: bytes) -> None:
        hello = read_hello(SERVER_HELLO, body)
        if hello is None or self._server is not None:
            return
        facts = self._facts
        if hello.retry:
            facts.retried = True
            facts.early_accepted = False
            return
        self._server = hello
        self._no_bulk()
        version = self._version = hello.agreed
        code = hello.suites[0]
        suite = self._suite = SUITES.get(code)
        facts.version = VERSIONS.get(version, f"0x{version:04x}")
        facts.suite = suite.name if suite is not None else f"0x{code:04X}"
        self._turns.extra = overhead(suite, version)
        self._turns.begin(tickets=version == TLS_13)
        client = self._hello
        if version == TLS_13:
            facts.resumed = 41 in hello.extensions
            self._sides[S2C].sealed = self._sides[C2S].sealed = True
        else:
            chosen = hello.alpn
            facts.protocol = chosen[0] if chosen else None
            facts.resumed = bool(client and hello.session_id and hello.session_id == client.session_id)
        if client is not None and suite is not None:
            # The secrets stand under the first hello's random, also after a HelloRetryRequest.
            self._secrets = self._setting.run.secrets.find(facts.client_random or client.random)
            if self._secrets is not None:
                self._make_keys(client, hello, suite, self._secrets)
        self._undecided = facts.early_data and version == TLS_13 and bool(self._sides[S2C].keys)
        if not self._undecided:
            self._let_go()

    def _let_go(self) -> None:
        """What the client sent early can be read: it is known by which keys, and whether the server took it."""
        self._undecided = False
        up = self._sides[C2S]
        waiting, up.waiting = up.waiting, []
        for record in waiting:
            self._sealed(up, record)
        up.keys.unsure = up.keys.unsure or up.waiting_bytes > HELD_BYTES

    def _make_keys(self, client: Hello, server: Hello, suite: Suite, secrets: Secrets) -> None:
        if self._version == TLS_13:
            for side, name in zip(self._sides, ("CLIENT", "SERVER"), strict=True):
                labels = [f"{name}_HANDSHAKE_TRAFFIC_SECRET", f"{name}_TRAFFIC_SECRET_0"]
                if side.direction is C2S and self._facts.early_data:
                    labels.insert(0, "CLIENT_EARLY_TRAFFIC_SECRET")
                side.keys.put([Opener13(suite, secrets[label]) for label in labels if secrets.get(label)])
        elif self._version == TLS_12 and secrets.get("CLIENT_RANDOM"):
            agreed = Agreed12(suite, client.random, server.random, 22 in server.extensions)
            self._openers_12 = openers_12(agreed, secrets["CLIENT_RANDOM"])
