"""The four laws of every registered dissector, on damaged streams that were valid once.

1. Any cutting of the stream gives the same events. 2. Nothing raises. 3. Bytes and holes in equal bytes and holes out.
4. No event spans a hole.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wsproto.connection import Connection as Peer
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Gap, Item, Payload, Probe, Spec
from hsa.dissectors.registry import ALL
from tests.conversations import JSON_BODIES, Step, Turn, cut_sizes, damaged, one_by_one, pieces, streams, talks
from tests.http2_talks import talks2

Log = list[list[Any]]


def run(spec: Spec, items: Sequence[tuple[Direction, Item]]) -> Log:
    """Everything a dissector says, for each direction."""
    dissector = spec.dissector()
    log: Log = [[], []]
    for direction, item in items:
        for said in dissector.feed(direction, item):
            log[said.direction].append(said)
    for said in dissector.close():
        log[said.direction].append(said)
    return log


def told(said: Any) -> list[Any]:
    """[kind, bytes, holes, content] without where it was seen."""
    if isinstance(said, Payload):
        if isinstance(said.item, Gap):
            return ["hole", said.bytes, said.item.size, b""]
        return ["payload", said.bytes, 0, said.item.data]
    if isinstance(said, Damage):
        return [(said.kind, said.layer, said.rule, said.detail), said.bytes, said.missing, b""]
    values = [
        (f.name, without_places(getattr(said, f.name)))
        for f in dataclasses.fields(said)
        if f.name not in ("seen", "bytes")
    ]
    return [type(said).__name__, said.bytes, 0, values]


def without_places(value: Any) -> Any:
    """Messages inside an event, as what they say."""
    if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
        return [repr(dataclasses.replace(one, seen=None)) for one in value]
    return value


def joined(said: Sequence[Any]) -> list[list[Any]]:
    """What was said, neighbouring payloads and skipped bytes joined; a mere remark has no bytes and stays."""
    out: list[list[Any]] = []
    for one in map(told, said):
        last = out[-1] if out else None
        same = (
            last is not None and last[0] == one[0] and (one[0] == "payload" or (isinstance(one[0], tuple) and one[1]))
        )
        if same and last is not None and not one[2] and not last[2]:
            last[1] += one[1]
            last[3] = last[3] + one[3]
        else:
            out.append(one)
    return out


def check(spec: Spec, steps: Sequence[Step], seed: int) -> None:
    """All four laws on one stream."""
    whole = run(spec, pieces(steps))
    for sizes in (one_by_one(), cut_sizes(Random(seed))):
        other = run(spec, pieces(steps, sizes))
        for direction in Direction:
            assert joined(other[direction]) == joined(whole[direction])
    for direction in Direction:
        mine = [what for way, what in steps if way is direction]
        fed = sum(len(what) for what in mine if isinstance(what, bytes))
        assert sum(said.bytes for said in whole[direction]) == fed
        holes = [what for what in mine if isinstance(what, int)]
        out = [one[2] for one in map(told, whole[direction]) if one[2]]
        assert sum(size for size in out if size > 0) == sum(size for size in holes if size > 0)
        assert sum(size < 0 for size in out) == sum(size < 0 for size in holes)
        spans(steps, direction, whole[direction])


def spans(steps: Sequence[Step], direction: Direction, said: Sequence[Any]) -> None:
    """No event covers bytes on both sides of a hole, and each was seen where its last byte was."""
    holes: list[int] = []
    places: list[int] = []
    place = 1
    for way, what in steps:
        if isinstance(what, int):
            if way is direction:
                holes.append(len(places))
            continue
        if way is direction:
            places.extend(range(place, place + len(what)))
        place += len(what)
    at = 0
    for one in said:
        if not isinstance(one, Damage):
            assert not any(at < hole < at + one.bytes for hole in holes), one
            if one.bytes and not isinstance(one, Payload):
                assert one.seen.last_frame == places[at + one.bytes - 1]
                assert places[at] <= one.seen.first_frame <= one.seen.last_frame
            elif isinstance(one, Payload) and isinstance(one.item, Chunk):
                assert one.item.seen.last_frame == places[at + one.bytes - 1]
        at += one.bytes


# ---------------------------------------------------------------- valid streams for each dissector

PROXY_HEADERS = (
    b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n",
    b"PROXY UNKNOWN\r\n",
    b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0f\xc0\x00\x02\x01\xc6\x33\x64\x01\xdc\x04\x01\xbb\x03\x00\x00",
)


def one_way(direction: Direction, data: st.SearchStrategy[bytes]) -> st.SearchStrategy[list[Turn]]:
    return data.map(lambda body: [(direction, body)] if body else [])


@st.composite
def websockets(draw: st.DrawFn) -> list[Turn]:
    """Frames as wsproto writes them: messages in one piece and in several, pings, the close."""
    peers = {C2S: Peer(ConnectionType.CLIENT), S2C: Peer(ConnectionType.SERVER)}
    turns: list[Turn] = []
    for way, kind, text in draw(
        st.lists(st.tuples(st.sampled_from((C2S, S2C)), st.integers(0, 3), st.text(max_size=150)), max_size=6)
    ):
        events: list[Any] = [TextMessage(text)]
        if kind == 1:
            events = [TextMessage(text, message_finished=False), Ping(b"?"), TextMessage(text)]
        elif kind == 2:
            events = [BytesMessage(text.encode())]
        turns.append((way, b"".join(peers[way].send(one) for one in events)))
    return [*turns, (C2S, peers[C2S].send(CloseConnection(1000)))]


STREAMS: dict[str, st.SearchStrategy[list[Turn]]] = {
    "http1": talks().map(lambda talk: talk.turns),
    "http2": talks2(),
    "sse": one_way(S2C, streams().map(lambda stream: stream.wire)),
    "json-rpc": st.tuples(JSON_BODIES, JSON_BODIES).map(lambda two: [(C2S, two[0]), (S2C, two[1])]),
    "json-lines": st.lists(
        st.tuples(st.sampled_from((C2S, S2C)), JSON_BODIES, st.sampled_from((b"\n", b"\n", b"\r\n", b"\n\n"))),
        max_size=6,
    ).map(lambda lines: [(way, b'{"jsonrpc":"2.0","id":1,"result":' + body + b"}" + end) for way, body, end in lines]),
    "websocket": websockets(),
    "proxy": st.tuples(st.sampled_from(PROXY_HEADERS), st.binary(min_size=1, max_size=40)).map(
        lambda two: [(C2S, two[0] + two[1]), (S2C, two[1])]
    ),
}


def test_every_dissector_has_streams() -> None:
    assert {spec.name for spec in ALL} == set(STREAMS)


@st.composite
def injured(draw: st.DrawFn, name: str) -> list[Step]:
    turns = draw(STREAMS[name])
    return draw(damaged(turns)) if draw(st.integers(0, 5)) else list(turns)


def laws(spec: Spec, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(injured(spec.name), st.integers(0, 2**32))
    def hold(steps: list[Step], seed: int) -> None:
        check(spec, steps, seed)

    hold()


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_laws(spec: Spec) -> None:
    laws(spec, 50)


@pytest.mark.slow
@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_laws_at_length(spec: Spec) -> None:
    laws(spec, 1000)


@pytest.mark.parametrize("spec", ALL, ids=lambda spec: spec.name)
def test_probe_knows_its_own(spec: Spec) -> None:
    @settings(max_examples=50, deadline=None)
    @given(STREAMS[spec.name])
    def known(turns: list[Turn]) -> None:
        first_of = {direction: data for direction, data in reversed(turns)}
        for direction, data in first_of.items() if spec.name == "http2" else turns:
            if data.strip(b"\r\n \xef\xbb\xbf") and not (spec.name == "proxy" and direction is S2C):
                answers = [spec.probe(direction, data[:size]) for size in range(1, len(data) + 1)]
                assert Probe.NO not in answers
                if Probe.YES in answers:
                    first = answers.index(Probe.YES)
                    assert set(answers[:first]) <= {Probe.MORE}

    known()
