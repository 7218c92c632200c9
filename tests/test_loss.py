"""Packets lost on the way to the capture: no answer is ever given to another request, and what is not whole says so.

Every request and response carries its number, so that a wrong pair shows. Truth is the conversation as it was made.
"""

from __future__ import annotations

from random import Random

import pytest

from hsa.dissectors.http import HttpExchange
from tests.dissectors.frames import Frame, Talk
from tests.dissectors.streams import run
from tests.dissectors.test_driver import drive

EXCHANGES = 8


def conversation(random: Random) -> tuple[Talk, list[str]]:
    """Exchanges one after the other on one connection, in every framing; and how each was answered."""
    talk = Talk(segment=random.choice((60, 200, 1460))).open()
    kinds = []
    for number in range(EXCHANGES):
        ask(talk, random, number)
        kinds.append(random.choice(("length", "chunked", "events", "empty")))
        reply(talk, random, number, kinds[-1])
    return (talk.close() if random.random() < 0.7 else talk), kinds


def ask(talk: Talk, random: Random, number: int) -> None:
    body = b'{"jsonrpc":"2.0","id":%d,"method":"m","params":{"x":"%s"}}' % (number, b"q" * random.choice((0, 50, 400)))
    head = b"POST /mcp HTTP/1.1\r\nHost: x\r\nX-Id: %d\r\n" % number
    if random.random() < 0.3:
        head, body = head + b"Transfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    else:
        head += b"Content-Length: %d\r\n\r\n" % len(body)
    if random.random() < 0.5:
        talk.say(True, head, False).say(True, body)
    else:
        talk.say(True, head + body)


def reply(talk: Talk, random: Random, number: int, kind: str) -> None:
    head = b"HTTP/1.1 200 OK\r\nX-Id: %d\r\n" % number
    body = b'{"jsonrpc":"2.0","id":%d,"result":{"x":"%s"}}' % (number, b"z" * random.choice((0, 300, 900)))
    if kind == "empty":
        talk.say(False, head + b"Content-Length: 0\r\n\r\n")
    elif kind == "length":
        talk.say(False, head + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    elif kind == "chunked":
        talk.say(False, head + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n", False)
        talk.say(False, b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
    else:
        note = b'event: message\r\ndata: {"jsonrpc":"2.0","method":"n"}\r\n\r\n'
        answer = b"event: message\r\ndata: " + body + b"\r\n\r\n"
        talk.say(False, head + b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n", False)
        for event in [note] * random.randrange(3) + [answer]:
            talk.say(False, b"%x\r\n%s\r\n" % (len(event), event), False)
        talk.say(False, b"0\r\n\r\n")


def lose(talk: Talk, random: Random) -> tuple[list[Frame], int]:
    """Frames that are left, and how many segments with data are gone: a few single ones, now and then some in a row."""
    data = [frame for frame in talk.frames if frame.data]
    lost = {id(frame) for frame in random.sample(data, random.choice((1, 1, 1, 2, 3)))}
    if random.random() < 0.3:
        start = random.randrange(len(data))
        lost |= {id(frame) for frame in data[start : start + random.randrange(2, 6)]}
    return [frame for frame in talk.frames if id(frame) not in lost], len(lost)


def number_of(message: object) -> int | None:
    value = message.header("x-id") if message is not None else None  # type: ignore[attr-defined]
    return None if value is None else int(value)


def whole(exchange: HttpExchange) -> bool:
    request, response = exchange.request, exchange.response
    if request is None or response is None:
        return False
    return request.complete and response.complete and not request.missing and not response.missing


def check(seed: int) -> None:
    random = Random(seed)
    talk, kinds = conversation(random)
    frames, lost = lose(talk, random)
    driver, exchanges = drive(frames, block=random.choice((3, 20, 10**6)))
    assert driver.bugs == 0
    good = 0
    for exchange in exchanges:
        asked, told = number_of(exchange.request), number_of(exchange.response)
        assert asked is None or told is None or asked == told
        if not whole(exchange):
            assert exchange.damaged
            continue
        assert asked == told and asked is not None and exchange.request and exchange.response
        good += 1
        assert [m.rpc_id for m in exchange.request.messages] == [asked]
        answers = [m.rpc_id for m in exchange.response.messages if m.kind == "response"]
        assert answers == ([] if kinds[asked] == "empty" else [asked])
    assert good >= EXCHANGES - 2 * lost


@pytest.mark.parametrize("seed", range(40))
def test_no_answer_goes_to_another_request(seed: int) -> None:
    check(seed)


@pytest.mark.slow
def test_no_answer_goes_to_another_request_at_length() -> None:
    for seed in range(100, 2600):
        check(seed)


@pytest.mark.parametrize("seed", [996, 1168, 1243, *range(20)])
def test_every_captured_byte_is_delivered(seed: int) -> None:
    """Data that only waits for a lost segment of the other direction is no hole when that one is given up late."""
    random = Random(seed)
    talk = Talk(segment=200).open()
    for _ in range(random.randrange(2, 12)):
        talk.say(True, b"q" * random.choice((60, 200, 500))).say(False, b"a" * random.choice((60, 500, 1200)))
    if random.random() < 0.8:
        talk.close()
    lost = random.sample([f for f in talk.frames if f.data], random.choice((1, 2, 2, 3)))
    frames = [f for f in talk.frames if all(f is not one for one in lost)]
    (seen, *_), _, _ = run(frames)
    assert seen.connection.payload_bytes == [sum(len(f.data) for f in frames if f.up is up) for up in (True, False)]
    assert sum(seen.connection.gaps) == sum(len(f.data) for f in lost)
