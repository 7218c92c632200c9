"""Captures scrubbed: what hsa reads is the same, and nothing that was somebody's own is left."""

from __future__ import annotations

import base64
import gzip
import json
import random
import ssl
import string
from contextlib import suppress
from pathlib import Path

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection

from hsa.analysis.model import Handshake
from hsa.analysis.options import Options
from hsa.analysis.pipeline import analyze_traces
from hsa.analysis.scrub import dns
from hsa.analysis.scrub.addresses import Addresses
from hsa.analysis.scrub.content import body
from hsa.analysis.scrub.json_text import Scan
from hsa.analysis.scrub.layers import scrub
from hsa.analysis.scrub.packing import packed
from hsa.analysis.scrub.pseudonyms import BITS, Pseudonyms
from hsa.analysis.scrub.rewrite import Survivors, rewrite
from hsa.analysis.scrub.text import Words
from hsa.capture.files import open_traces
from hsa.dissectors.coding import decoder_for
from hsa.dissectors.contract import C2S, S2C, Chunk, Direction, Seen

FIXTURES = Path(__file__).parents[2] / "fixtures"
CAPTURES = sorted(
    p
    for folder in ("recorded", "paper", "http2", "cases", "foreign", "websocket")
    for p in (FIXTURES / folder).glob("*.pcap")
    if p.stat().st_size < 400_000
)
SECRET = "Zq7LkkP0aVerySecretToken55"
HOST = "assistant.acmecorp.internal"


def words() -> Words:
    return Words(Pseudonyms(b"a key for tests only"))


def facts(h: Handshake) -> tuple[object, ...]:
    """What must not change."""
    return (
        h.protocol, h.era, h.version, h.transport, h.outcome, h.cause, h.ready_by, h.warm, h.observed,
        h.time_to_ready_ms, h.wire_time_ms, h.round_trips, h.critical_round_trips, h.attempts, h.retries, h.redirects,
        h.connections, h.connections_opened, h.connections_failed, h.streams, h.bytes_up, h.bytes_down,
        h.captured_bytes_up, h.captured_bytes_down, h.phases, h.first_task, h.tasks, h.metadata.bytes,
        h.metadata.capabilities,
    )  # fmt: skip


@pytest.mark.parametrize("path", CAPTURES, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_the_analysis_of_a_scrubbed_capture_is_that_of_the_capture(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "scrubbed.pcapng"
    rewrite(open_traces([path]), out, b"a key for tests only")
    before, after = (analyze_traces([p], Options(tokenizer="none")) for p in (path, out))
    assert [facts(h) for h in after.handshakes] == [facts(h) for h in before.handshakes]


def stream(*parts: tuple[Direction, bytes]) -> str:
    """The scrubbed bytes of a conversation as text."""
    items = [(d, Chunk(data, Seen(i, i, i, i))) for i, (d, data) in enumerate(parts)]
    made = scrub(words(), items, (False, False))
    for side in (C2S, S2C):
        assert len(made[side]) == sum(len(data) for d, data in parts if d is side)
    return (made[0] + made[1]).decode("latin-1")


@pytest.mark.parametrize(
    ("head", "content"),
    [
        (f"POST /mcp?api_key={SECRET} HTTP/1.1", b""),
        (f"POST /mcp HTTP/1.1\r\nAuthorization: Bearer {SECRET}", b""),
        ("GET /x HTTP/1.1\r\nAuthorization: Basic " + base64.b64encode(f"u:{SECRET}".encode()).decode(), b""),
        (f"GET /x HTTP/1.1\r\nCookie: sid={SECRET}; lang=en", b""),
        (f"GET /x HTTP/1.1\r\nX-Acme-Thing: {SECRET}", b""),
        (f"GET /x HTTP/1.1\r\nX-{SECRET}: yes", b""),
        ("POST /mcp HTTP/1.1\r\nContent-Type: application/json", json.dumps({"params": {"token": SECRET}}).encode()),
        ("POST /mcp HTTP/1.1\r\nContent-Type: application/json", json.dumps({SECRET: 1}).encode()),
        ("POST /t HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded", f"code={SECRET}&x={HOST}".encode()),
        ("POST /t HTTP/1.1\r\nContent-Type: text/event-stream", f"event: {SECRET}\ndata: {SECRET}\n\n".encode()),
        ("POST /t HTTP/1.1\r\nContent-Type: image/png", b"\x89PNG\0\0\1\2" + SECRET.encode()),
    ],
)
def test_no_secret_is_left_in_a_request(head: str, content: bytes) -> None:
    data = f"{head}\r\nHost: {HOST}:8080\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content
    left = stream((C2S, data))
    assert SECRET not in left and "acmecorp" not in left and base64.b64encode(SECRET.encode()).decode() not in left
    assert left.startswith(head[:4]) and ":8080" in left


def test_the_same_id_becomes_the_same_in_header_body_path_and_stream() -> None:
    asked = f"GET /sessions/{SECRET} HTTP/1.1\r\nHost: h\r\nMcp-Session-Id: {SECRET}\r\n\r\n".encode()
    said = json.dumps({"id": SECRET}).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(said) + said
    left = stream((C2S, asked), (S2C, answer))
    assert left.count(words().pseudonyms.word(SECRET)) == 3


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "deflate"])
def test_a_coded_body_is_decoded_replaced_and_encoded_again(coding: str) -> None:
    document = {"result": {"name": SECRET, "text": "the weather of " + HOST + " " + " ".join(string.ascii_letters)}}
    plain = json.dumps(document).encode()
    size = len(gzip.compress(plain)) + 20
    coded = packed(plain, coding, size)
    assert coded is not None
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: {coding}\r\nContent-Length: {size}"
    left = stream((C2S, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"), (S2C, head.encode() + b"\r\n\r\n" + coded))
    decoder = decoder_for(coding, 10_000)
    assert decoder is not None
    again = decoder.feed(left.encode("latin-1")[-size:])
    assert len(again) == len(plain) and json.loads(again)["result"]["name"] == words().pseudonyms.word(SECRET)
    assert b"acmecorp" not in again


@pytest.mark.parametrize("huffman", [True, False])
def test_http2_fields_are_replaced_and_still_decode(huffman: bool) -> None:
    client = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    client.encoder.huffman_coding_enabled = huffman
    client.initiate_connection()
    fields = [(":method", "POST"), (":path", f"/mcp?key={SECRET}"), (":scheme", "http"), (":authority", HOST)]
    fields += [
        ("authorization", f"Bearer {SECRET}"),
        ("content-type", "application/json"),
        ("x-forwarded-for", "10.1.2.3"),
    ]
    for number in (1, 3):
        client.send_headers(number, fields)
        client.send_data(number, json.dumps({"token": SECRET}).encode(), end_stream=True)
    sent = client.data_to_send()
    server = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
    server.initiate_connection()
    left = stream((C2S, sent), (S2C, server.data_to_send())).encode("latin-1")
    events = server.receive_data(left[: len(sent)])
    seen = [dict(e.headers) for e in events if hasattr(e, "headers")]  # type: ignore[attr-defined]
    assert len(seen) == 2 and seen[0] == seen[1]
    assert seen[0]["authorization"] == f"Bearer {words().pseudonyms.word(SECRET)}"
    assert seen[0]["content-type"] == "application/json" and "acmecorp" not in seen[0][":authority"]
    assert seen[0]["x-forwarded-for"] == words().addresses.text(b"10.1.2.3").decode()  # type: ignore[union-attr]
    assert SECRET.encode() not in left


def test_json_keeps_its_length_and_validity_whatever_it_holds() -> None:
    draw = random.Random(7)

    def value(depth: int) -> object:
        kind = draw.randrange(7 if depth < 4 else 5)
        if kind == 5:
            return [value(depth + 1) for _ in range(draw.randrange(4))]
        if kind == 6:
            return {text(): value(depth + 1) for _ in range(draw.randrange(4))}
        return (text(), draw.randrange(10**9), draw.random() * 1e6, None, True)[kind]

    def text() -> str:
        letters = string.printable + "\u00e9\u4e2d\U0001f600"
        known = draw.choice(["name", "id", "arguments", "type", "10.0.0.1", "http://a.b/c?d=e"])
        return known if draw.random() < 0.3 else "".join(draw.choices(letters, k=draw.randrange(12)))

    for ascii_only in (True, False) * 150:
        data = json.dumps(value(0), ensure_ascii=ascii_only).encode()
        made = Scan(words()).feed(data)
        assert len(made) == len(data)
        json.loads(made)
        cut = data[: draw.randrange(len(data) + 1)]
        assert len(Scan(words()).feed(cut)) == len(cut)


def test_random_bytes_keep_their_length() -> None:
    draw = random.Random(3)
    for kind in ("application/json", "text/event-stream", "application/grpc", "application/x-www-form-urlencoded", ""):
        for _ in range(40):
            data = draw.randbytes(draw.randrange(200))
            assert b"".join(body(words(), [data], kind, None, None)) == b"" or len(
                b"".join(body(words(), [data], kind, None, None))
            ) == len(data)


def test_pseudonyms_keep_length_kind_and_code_length_and_are_never_shared() -> None:
    one = words().pseudonyms
    draw = random.Random(5)
    made: dict[str, str] = {}
    for _ in range(800):
        word = "".join(draw.choices(string.ascii_letters + string.digits, k=draw.randrange(4, 60)))
        new = made[word] = one.word(word)
        assert [c.isdigit() for c in new] == [c.isdigit() for c in word]
        assert [c.isupper() for c in new] == [c.isupper() for c in word]
        assert sum(BITS[ord(c)] for c in new) == sum(BITS[ord(c)] for c in word)
    assert len(set(made.values())) == len(made)


def test_addresses_share_their_networks_exactly_when_the_originals_do() -> None:
    addresses = Addresses(words().pseudonyms)
    draw = random.Random(9)
    pairs = [(a := bytes(draw.choices(range(256), k=4)), a[:2] + draw.randbytes(2)) for _ in range(300)]
    for a, b in pairs:
        x, y = addresses.packed(a), addresses.packed(b)
        for size in range(1, 5):
            assert (a[:size] == b[:size]) is (x[:size] == y[:size])
        assert len(".".join(map(str, x))) == len(".".join(map(str, a)))
    assert addresses.text(b"127.0.0.1") == b"127.0.0.1"
    assert addresses.text(b"2001:db8::1") != b"2001:db8::1"


def test_names_in_dns_and_in_client_hellos_become_the_same() -> None:
    labels = HOST.encode().split(b".")
    asked = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    made = dns.scrub(words(), b"\0\1\1\0\0\1\0\0\0\0\0\0" + asked + b"\0\1\0\1")
    wanted = words().host(HOST.encode()).split(b".")
    assert made[12:-4] == b"".join(bytes([len(label)]) + label for label in wanted) + b"\0"
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname=HOST)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = outgoing.read()
    left = stream((C2S, hello)).encode("latin-1")
    assert b".".join(wanted) in left and b"acmecorp" not in left
    assert left[:5] == hello[:5] and left[11:43] != hello[11:43]


def test_flipped_bytes_break_nothing(tmp_path: Path) -> None:
    draw = random.Random(11)
    for path in draw.sample(CAPTURES, 12):
        data = bytearray(path.read_bytes())
        for _ in range(len(data) // 300):
            data[draw.randrange(40, len(data))] = draw.randrange(256)
        (tmp_path / "bad.pcap").write_bytes(data)
        with suppress(Survivors):
            assert rewrite(open_traces([tmp_path / "bad.pcap"]), tmp_path / "out", b"k").packets >= 0
