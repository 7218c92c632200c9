"""TLS opened and described: what OpenSSL wrote in memory must come out as it went in."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest

from hsa.dissectors.connection import Connection, Endpoint, Tls
from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Gap, Seen
from hsa.dissectors.http import HttpExchange
from hsa.dissectors.nesting import Run, Setting
from hsa.dissectors.registry import open_stream
from hsa.dissectors.tls import BAD_TAG, HANDSHAKE_ONLY, HELD_BYTES, LATE, NO_KEY, RECORD_BYTES, TlsReader
from hsa.dissectors.tls_keylog import KeyLog
from hsa.dissectors.tls_suites import SUITES
from tests.dissectors.tls_talk import Pair, Wire

BODY = b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}'
ASK = b"POST /mcp HTTP/1.1\r\nHost: mcp.example\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(
    BODY
)
ASK += BODY
ANSWER = b'{"jsonrpc": "2.0", "id": 1, "result": {}}'
TELL = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(ANSWER) + ANSWER
LONG = b"HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n" + b"x" * 60000
SAID: list[tuple[Direction, bytes]] = [(C2S, ASK), (S2C, TELL), (C2S, ASK), (S2C, LONG)]


class Read:
    """A wire read with a key log."""

    def __init__(self, wire: list[tuple[Direction, bytes | int]] | Wire, log: bytes, *, mid: bool = False) -> None:
        self.connection = Connection(0, 0, Endpoint("192.0.2.1", 4000), Endpoint("192.0.2.2", 443), kind="tls")
        self.connection.seen_packets = [1, 1]
        self.kinds: list[str] = []

        def rename(connection: Connection, kind: str) -> None:
            connection.kind = kind
            self.kinds.append(kind)

        run = Run(open_stream, rename=rename, secrets=KeyLog([log]))
        reader = TlsReader(Setting(self.connection, run, (mid, mid)))
        self.final: list[HttpExchange] = []
        self.damage: list[Damage] = []
        for i, (direction, what) in enumerate(wire, 1):
            seen = Seen(i, i, i * 1000, i * 1000)
            self.take(reader.push(direction, Gap(what, seen) if isinstance(what, int) else Chunk(what, seen)))
        self.take(reader.end(None, "fin", Seen(0, 0, 0, 0)))

    def take(self, said: list[Any]) -> None:
        for one in said:
            if isinstance(one, Damage):
                self.damage.append(one)
            elif one[1]:
                self.final.append(one[0])

    @property
    def tls(self) -> Tls:
        assert self.connection.tls is not None
        return self.connection.tls

    @property
    def bodies(self) -> list[tuple[int, int]]:
        return [
            (e.request.wire_bytes if e.request else -1, e.response.wire_bytes if e.response else -1) for e in self.final
        ]


def cut(wire: Wire, random: Random) -> Wire:
    """The same bytes in other pieces."""
    pieces: Wire = []
    for direction, data in wire:
        while data:
            size = random.choice((1, 2, 5, 7, 100, 1460, 65536))
            pieces.append((direction, data[:size]))
            data = data[size:]
    return pieces


WHOLE = [(len(ASK), len(TELL)), (len(ASK), len(LONG))]


def test_tls_13() -> None:
    pair = Pair()
    read = Read(pair.talk(SAID), pair.log)
    assert read.bodies == WHOLE and not read.damage
    tls = read.tls
    assert (tls.version, tls.server_name, tls.offered, tls.protocol) == (
        "1.3",
        "mcp.example",
        ("http/1.1",),
        "http/1.1",
    )
    assert (tls.round_trips, tls.resumed, tls.decrypted, tls.reason) == (1, False, True, None)
    assert tls.subject == "CN=mcp.example" and tls.suite and tls.suite.startswith("TLS_AES_256_GCM")
    assert tls.hello_ns and tls.done_ns and tls.hello_ns < tls.done_ns
    assert tls.application_bytes == [2 * len(ASK), len(TELL) + len(LONG)]
    assert read.kinds == ["http"]


SUITES_12 = [
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-CCM",
    "AES256-CCM",
    "AES128-CCM8",
    "AES256-CCM8",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-RSA-AES256-SHA",
    "ECDHE-RSA-AES128-SHA256",
    "ECDHE-RSA-AES256-SHA384",
    "AES128-SHA",
    "AES256-SHA256",
]


@pytest.mark.parametrize("suite", SUITES_12)
def test_suites_of_tls_12(suite: str) -> None:
    pair = Pair("1.2", f"{suite}:@SECLEVEL=0")
    read = Read(pair.talk(SAID), pair.log)
    assert read.bodies == WHOLE and not read.damage
    assert (read.tls.version, read.tls.round_trips, read.tls.subject) == ("1.2", 2, "CN=mcp.example")
    again = Read(pair.talk(SAID, resume=True), pair.log)
    assert again.bodies == WHOLE and again.tls.resumed and again.tls.round_trips == 1


def test_every_suite_that_openssl_enables_is_known() -> None:
    import ssl

    names = {suite.name for suite in SUITES.values()}
    codes = {c["id"] & 0xFFFF for c in ssl.create_default_context().get_ciphers()}
    assert codes <= set(SUITES), [f"{c:04x}" for c in codes - set(SUITES)]
    assert len(names) == len(SUITES)


def test_resumption_in_tls_13() -> None:
    pair = Pair()
    pair.talk(SAID)
    read = Read(pair.talk(SAID, resume=True), pair.log)
    assert read.bodies == WHOLE and read.tls.resumed and read.tls.subject is None


def test_hello_retry_request() -> None:
    pair = Pair(curve="secp521r1")
    read = Read(pair.talk(SAID), pair.log)
    assert read.bodies == WHOLE and read.tls.retried and read.tls.round_trips == 2


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_client_certificates(version: str) -> None:
    pair = Pair(version, client_certificate=True)
    read = Read(pair.talk(SAID), pair.log)
    assert read.bodies == WHOLE and read.tls.client_certificate


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("seed", range(8))
def test_any_cut_gives_the_same(version: str, seed: int) -> None:
    pair = Pair(version)
    wire = pair.talk(SAID)
    read = Read(cut(wire, Random(seed)), pair.log)
    assert read.bodies == WHOLE and not read.damage
    assert read.tls.application_bytes == [2 * len(ASK), len(TELL) + len(LONG)]


def test_key_logs_as_they_come() -> None:
    """Comments, CRLF, lines twice, strangers' secrets, nonsense."""
    pair = Pair()
    wire = pair.talk(SAID)
    lines = pair.log.replace(b"\n", b"\r\n")
    stranger = b"CLIENT_RANDOM " + b"ab" * 32 + b" " + b"cd" * 48 + b"\n"
    log = b"# a comment\r\n" + stranger + lines + b"nonsense\n" + lines + b"\x00\xff" * 100 + b"\nCLIENT_RANDOM zz\n"
    assert Read(wire, log).bodies == WHOLE


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_without_its_key(version: str) -> None:
    pair = Pair(version)
    wire = pair.talk(SAID)
    read = Read(wire, b"")
    assert not read.final and [d.detail for d in read.damage] == [NO_KEY]
    tls = read.tls
    assert (tls.version, tls.server_name, tls.reason) == (version, "mcp.example", NO_KEY)
    up, down = tls.application_bytes
    assert (
        2 * len(ASK) <= up <= 2 * len(ASK) + 400 and len(TELL) + len(LONG) <= down <= len(TELL) + len(LONG) + 3500
    )  # tickets look like data
    assert tls.done_ns is not None and read.connection.kind == "tls"


def test_handshake_secrets_only() -> None:
    pair = Pair()
    wire = pair.talk(SAID)
    log = b"\n".join(line for line in pair.log.splitlines() if b"HANDSHAKE" in line)
    read = Read(wire, log)
    assert [d.detail for d in read.damage] == [HANDSHAKE_ONLY] and not read.final
    assert read.tls.protocol == "http/1.1" and read.tls.subject == "CN=mcp.example"


def test_application_secrets_only() -> None:
    """The handshake stays shut; what was said is read all the same."""
    pair = Pair()
    wire = pair.talk(SAID)
    log = b"\n".join(line for line in pair.log.splitlines() if b"TRAFFIC_SECRET_0" in line)
    assert Read(wire, log).bodies == WHOLE


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_wrong_secrets(version: str) -> None:
    pair = Pair(version)
    wire = pair.talk(SAID)
    log = re.sub(rb"[0-9a-f]{2}(?=\n)", lambda m: b"%02x" % (int(m[0], 16) ^ 1), pair.log)
    read = Read(wire, log)
    assert [d.detail for d in read.damage] == [BAD_TAG] and not read.final


def test_begun_before_the_capture() -> None:
    pair = Pair()
    wire = pair.talk(SAID)
    begin = next(i for i, (direction, data) in enumerate(wire) if direction is C2S and data[0] == 23)
    read = Read(wire[begin:], pair.log, mid=True)
    assert [d.detail for d in read.damage] == [LATE] and not read.final


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_hole_in_a_record_is_a_hole_in_what_it_held(version: str) -> None:
    """Bytes of the long answer are missing: its length is still known, what comes after is read."""
    pair = Pair(version)
    wire = pair.talk([*SAID, (C2S, ASK), (S2C, TELL)])
    at = max(range(len(wire)), key=lambda i: len(wire[i][1]))
    data = wire[at][1]
    pieces: list[tuple[Direction, bytes | int]] = [*wire[:at], (S2C, data[:20000]), (S2C, 500), (S2C, data[20500:])]
    read = Read([*pieces, *wire[at + 1 :]], pair.log)
    assert len(read.final) == 3 and read.final[1].damaged
    answer = read.final[1].response
    assert answer is not None and answer.missing > 0
    last = read.final[2].response
    assert last is not None and last.json is not None


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_whole_records_lost(version: str) -> None:
    """The sequence number of the next record is found again."""
    pair = Pair(version)
    wire = pair.talk([*SAID, (C2S, ASK), (S2C, TELL), (C2S, ASK), (S2C, TELL)])
    asks = [i for i, (direction, data) in enumerate(wire) if direction is C2S and 100 < len(data) < 400]
    lost = asks[-2]
    pieces: list[tuple[Direction, bytes | int]] = list(wire)
    pieces[lost] = (C2S, len(wire[lost][1]))
    read = Read(pieces, pair.log)
    answers = [e.response.json for e in read.final if e.response is not None and e.response.json is not None]
    assert len(answers) == 3


@pytest.mark.parametrize("seed", range(40))
def test_damage_is_never_a_fault_of_ours(seed: int) -> None:
    random = Random(seed)
    pair = Pair(random.choice(("1.2", "1.3")))
    wire: list[tuple[Direction, bytes | int]] = list(cut(pair.talk(SAID), random))
    for _ in range(random.randrange(1, 6)):
        at = random.randrange(len(wire))
        direction, what = wire[at]
        if isinstance(what, int):
            continue
        way = random.randrange(4)
        if way == 0:
            wire[at] = (direction, len(what))
        elif way == 1:
            place = random.randrange(len(what))
            wire[at] = (direction, what[:place] + bytes([random.randrange(256)]) + what[place + 1 :])
        elif way == 2:
            del wire[at:]
            if not wire:
                return
        else:
            wire.insert(at, (direction, bytes(random.randrange(256) for _ in range(50))))
    Read(wire, pair.log)


EVENT = b'data: {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}\n\n'
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENTS: list[tuple[Direction, bytes]] = [
    (C2S, ASK),
    (S2C, STREAM),
    *[(S2C, b"%x\r\n%s\r\n" % (len(EVENT), EVENT)) for _ in range(6)],
    (S2C, b"0\r\n\r\n"),
    (C2S, ASK),
    (S2C, TELL),
]


def said_by_server(wire: Wire) -> list[int]:
    """Where the server's writes are, the close alert left out."""
    return [i for i, (direction, _) in enumerate(wire) if direction is S2C][:-1]


def lossy(wire: Wire, lost: int) -> list[tuple[Direction, bytes | int]]:
    """The wire with a hole where one write was."""
    pieces: list[tuple[Direction, bytes | int]] = list(wire)
    direction, data = wire[lost]
    pieces[lost] = (direction, len(data))
    return pieces


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize("event", range(6))
def test_a_lost_record_is_no_whole_answer(version: str, event: int) -> None:
    """A record is an event is a chunk: without it the framing inside is as good as before."""
    pair = Pair(version)
    wire = pair.talk(EVENTS)
    answers = said_by_server(wire)
    read = Read(lossy(wire, answers[-8 + event]), pair.log)
    first, second = read.final
    assert first.damaged and first.response is not None and first.response.events == 5
    assert not second.damaged and second.response is not None and second.response.json is not None


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_lost_first_answer_is_not_taken_for_the_second(version: str) -> None:
    pair = Pair(version)
    other = TELL.replace(b'"id": 1', b'"id": 2')
    wire = pair.talk([(C2S, ASK), (S2C, TELL), (C2S, ASK), (S2C, other)])
    first = said_by_server(wire)[-2]
    data = wire[first][1]
    for pieces in (
        lossy(wire, first),
        [*wire[:first], (S2C, data[:40]), (S2C, 9), (S2C, data[49:]), *wire[first + 1 :]],
    ):
        read = Read(pieces, pair.log)
        assert [e.response and e.response.json["id"] for e in read.final] == [None, 2]
        assert read.final[0].damaged and not read.final[1].damaged


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_lost_last_answer_is_damage(version: str) -> None:
    pair = Pair(version)
    wire = pair.talk([(C2S, ASK), (S2C, TELL), (C2S, ASK), (S2C, TELL)])
    last = said_by_server(wire)[-1]
    read = Read([*wire[:last], (S2C, len(wire[last][1]))], pair.log)
    assert [e.damaged for e in read.final] == [False, True]


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_lost_request_is_not_answered_by_the_next(version: str) -> None:
    pair = Pair(version)
    wire = pair.talk([(C2S, ASK), (S2C, TELL), (C2S, ASK), (S2C, LONG)])
    asks = [i for i, (direction, data) in enumerate(wire) if direction is C2S and 100 < len(data) < 400 and i > 2]
    read = Read(lossy(wire, asks[0]), pair.log)
    whole = [e for e in read.final if e.request is not None]
    assert len(whole) == 1 and whole[0].response is not None and whole[0].response.wire_bytes == len(LONG)


def test_empty_records_do_not_wait_without_limit() -> None:
    """The server has not said its hello: what the client sends waits, but only so much."""
    wire = Pair().talk(SAID)
    connection = Connection(0, 0, Endpoint("192.0.2.1", 4000), Endpoint("192.0.2.2", 443), kind="tls")
    reader = TlsReader(Setting(connection, Run(open_stream)))
    seen = Seen(1, 1, 0, 0)
    reader.push(C2S, Chunk(wire[0][1], seen))
    for _ in range(4):
        reader.push(C2S, Chunk(b"\x17\x03\x03\x00\x00" * 10_000, seen))
    assert connection.tls is not None and connection.tls.records[C2S] == 40_001
    assert len(reader._sides[C2S].waiting) <= HELD_BYTES // RECORD_BYTES
