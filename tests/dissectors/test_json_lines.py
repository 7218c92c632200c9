"""JSON-RPC a line: what a stream of them is told by, lines, holes, ends."""

from __future__ import annotations

import pytest

from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Gap, Probe, Seen
from hsa.dissectors.first_bytes import LINES, OTHER, kind_of
from hsa.dissectors.json_lines import JsonLine, JsonLines, probe


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}\n', Probe.YES),
        (b'{"method":"initialize","params":{"a":"\\n"},"jsonrpc":"2.0","id":0}\r\n{', Probe.YES),
        (b'\n {"jsonrpc":"2.0","method":"notifications/x"}\n', Probe.YES),
        (b'[{"jsonrpc":"2.0","id":1,"result":{}}]\n', Probe.YES),
        (b'{"jsonrpc":"2.0","id":0,', Probe.MORE),
        (b"{", Probe.MORE),
        (b"", Probe.MORE),
        (b'{"id":0,"method":"initialize"}\n', Probe.NO),
        (b'{"jsonrpc":"2.0"}\n', Probe.NO),
        (b'{"jsonrpc":"2.0", what}\n', Probe.NO),
        (b"[]\n", Probe.NO),
        (b"[1]\n", Probe.NO),
        (b"Content-Length: 3\r\n", Probe.NO),
        (b" " * 64, Probe.NO),
    ],
)
def test_told_by_its_first_line(data: bytes, answer: Probe) -> None:
    assert probe(C2S, data) is answer
    if data and answer is not Probe.MORE:
        assert (kind_of(C2S, data, True) == LINES) == (answer is Probe.YES)


def test_other_streams_are_not_taken() -> None:
    assert kind_of(C2S, b"GET / HTTP/1.1\r\n", True) == "http"
    assert kind_of(C2S, b"\x00{\n", True) == OTHER
    assert kind_of(C2S, b'{"a":', False) != LINES and kind_of(C2S, b'{"a":', False) is not None


def feed(*items: bytes | int) -> list[JsonLine | Damage]:
    lines = JsonLines()
    said: list[JsonLine | Damage] = []
    for number, item in enumerate(items):
        seen = Seen(number, number, number * 10, number * 10)
        said += lines.feed(S2C, Gap(item, seen) if isinstance(item, int) else Chunk(item, seen))
    return said + list(lines.close())


def test_a_line_is_seen_from_its_first_to_its_last_byte() -> None:
    one, two, blank = feed(b'{"jsonrpc":"2.0",', b'"id":1,"result":{}}\n{"jsonrpc":', b'"2.0","method":"m"}\r\n\n')
    assert isinstance(one, JsonLine) and isinstance(two, JsonLine) and isinstance(blank, JsonLine)
    assert (one.seen, [m.kind for m in one.messages]) == (Seen(0, 1, 0, 10), ["response"])
    assert (two.seen, [m.kind for m in two.messages]) == (Seen(1, 2, 10, 20), ["notification"])
    assert blank.messages == () and blank.error is None


def test_a_hole_costs_the_lines_it_is_in() -> None:
    whole = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
    said = feed(whole + b'{"json', 100, b'"id":2}\n' + whole)
    kinds = [one.kind if isinstance(one, Damage) else "line" for one in said]
    assert kinds == ["line", "gap", "gap", "line"]
    gap = said[1]
    assert isinstance(gap, Damage) and (gap.bytes, gap.missing) == (6, 100)


def test_a_line_without_an_end_is_no_message() -> None:
    (cut,) = feed(b'{"jsonrpc":"2.0","id":1,"result":{}}')
    assert isinstance(cut, Damage) and cut.kind == "cut" and cut.bytes == 36


def test_too_long_a_line_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hsa.dissectors.json_lines.MAX_LINE_BYTES", 50)
    said = feed(b"{" * 60, b"{" * 60, b'\n{"jsonrpc":"2.0","method":"m"}\n')
    assert [one.kind if isinstance(one, Damage) else "line" for one in said] == ["limit", "limit", "limit", "line"]
    assert sum(one.bytes for one in said) == 60 + 60 + 1 + 31
