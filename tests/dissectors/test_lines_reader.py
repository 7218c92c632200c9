"""From lines to exchanges: who answers whom."""

from __future__ import annotations

import json
from typing import Any

from hsa.dissectors.connection import Connection, Endpoint
from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Gap, Seen
from hsa.dissectors.http import HttpExchange
from hsa.dissectors.http_content import MESSAGES_KEPT
from hsa.dissectors.lines_reader import MAX_OPEN, LinesReader
from hsa.dissectors.nesting import Setting


class Talk:
    """A reader that is fed messages, one a millisecond."""

    def __init__(self) -> None:
        self.connection = Connection(0, 0, Endpoint("127.0.0.1", 1), Endpoint("127.0.0.1", 2))
        self.connection.seen_packets = [9, 9]
        self.reader = LinesReader(Setting(self.connection))
        self.begun: list[HttpExchange] = []
        self.final: list[HttpExchange] = []
        self.damage: list[Damage] = []
        self._now = 0

    def _take(self, out: list[Any]) -> None:
        for one in out:
            if isinstance(one, Damage):
                self.damage.append(one)
            else:
                (self.final if one[1] else self.begun).append(one[0])

    def say(self, way: Direction, *messages: Any) -> None:
        for message in messages:
            self._now += 1
            seen = Seen(self._now, self._now, self._now * 10**6, self._now * 10**6)
            if isinstance(message, int):
                self._take(self.reader.push(way, Gap(message, seen)))
                continue
            if isinstance(message, dict):
                message = {"jsonrpc": "2.0", **message}
            text = message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
            self._take(self.reader.push(way, Chunk(text, seen)))

    def over(self) -> Talk:
        self._take(self.reader.end(None, "fin", Seen(self._now, self._now, 0, 0)))
        return self


def kinds(exchange: HttpExchange) -> tuple[list[str], list[str]]:
    sides = exchange.request, exchange.response
    up, down = ([m.kind for m in side.messages] if side is not None else [] for side in sides)
    return up, down


def test_answers_find_their_requests_in_any_order() -> None:
    talk = Talk()
    talk.say(C2S, {"id": 1, "method": "a"}, {"id": "1", "method": "b"})
    talk.say(S2C, {"id": "1", "result": {}}, {"id": 1, "error": {"code": 1, "message": "no"}})
    assert [e.request.messages[0].method for e in talk.final if e.request] == ["b", "a"]
    assert [kinds(e)[1] for e in talk.final] == [["response"], ["error"]]
    assert all(e.response and e.response.complete for e in talk.final) and len(talk.begun) == 2
    first = talk.begun[0]
    assert first.response is not None and first.response.seen.t_first_ns == 4 * 10**6
    assert [e.order for e in talk.begun] == [0, 1] and not talk.damage


def test_what_the_server_says_by_itself() -> None:
    """With the oldest open request, and else a response to nothing; all bytes are somewhere once."""
    talk = Talk()
    talk.say(S2C, {"method": "notifications/message"})
    talk.say(C2S, {"id": 1, "method": "a"}, {"id": 2, "method": "b"})
    talk.say(S2C, {"id": 1, "method": "roots/list"})
    talk.say(C2S, {"id": 1, "result": {}})
    talk.say(S2C, {"id": 2, "result": {}}, {"id": 1, "result": {}})
    talk.over()
    lone, answer, b, a = talk.final
    assert (kinds(lone), kinds(answer)) == (([], ["notification"]), (["response"], []))
    assert (kinds(a), kinds(b)) == ((["request"], ["request", "response"]), (["request"], ["response"]))
    assert a.response is not None and b.response is not None
    assert a.response.wire_bytes > b.response.wire_bytes
    assert lone.response is not None and lone.response.wire_bytes == 54


def test_a_batch_ends_with_its_last_answer() -> None:
    talk = Talk()
    batch = [{"jsonrpc": "2.0", "id": n, "method": "m"} for n in (1, 2)] + [{"jsonrpc": "2.0", "method": "n"}]
    talk.say(C2S, batch)
    talk.say(S2C, {"id": 2, "result": {}})
    assert talk.final == []
    talk.say(S2C, {"id": 1, "result": {}})
    (exchange,) = talk.final
    assert kinds(exchange) == (["request", "request", "notification"], ["response", "response"])


def test_without_an_answer() -> None:
    talk = Talk()
    talk.say(C2S, {"id": 1, "method": "a"})
    talk.connection.fin_ns = [5, None]
    talk.over()
    (exchange,) = talk.final
    assert exchange.response is None and exchange.closed_ns == 5 and not exchange.damaged


def test_an_answer_that_may_be_in_a_hole() -> None:
    talk = Talk()
    talk.say(C2S, {"id": 1, "method": "a"})
    talk.say(S2C, 100, b'rest"}\n')
    talk.say(C2S, {"id": 2, "method": "b"})
    talk.over()
    assert [exchange.damaged for exchange in talk.final] == [True, False]
    assert [damage.kind for damage in talk.damage] == ["gap", "gap"]


def test_lines_that_are_no_messages_are_told() -> None:
    talk = Talk()
    talk.say(S2C, b"Server running on stdio\n", b'{"level":"info"}\n', b"\n")
    talk.over()
    assert [damage.detail for damage in talk.damage] == ["line is no JSON", "line is no JSON-RPC message"]
    assert talk.final == []


def test_an_error_that_names_no_request() -> None:
    """It is the answer to the oldest; to an id that nobody asked with there is no exchange to answer."""
    talk = Talk()
    talk.say(C2S, {"id": 1, "method": "a"})
    talk.say(S2C, {"id": None, "error": {"code": -32700, "message": "parse"}}, {"id": 9, "result": {}})
    assert [kinds(exchange) for exchange in talk.final] == [(["request"], ["error"]), ([], ["response"])]


def test_open_requests_are_bounded() -> None:
    talk = Talk()
    talk.say(C2S, *({"id": n, "method": "m"} for n in range(MAX_OPEN + 5)))
    assert len(talk.final) == 5 and {damage.kind for damage in talk.damage} == {"limit"}


def test_given_up_all_is_handed_out() -> None:
    talk = Talk()
    talk.say(C2S, {"id": 1, "method": "a"})
    (out,) = talk.reader.give_up()
    assert isinstance(out, tuple) and out[0].damaged and out[1]


def test_a_batch_of_answers_is_read_to_its_end() -> None:
    """One of them answers nothing that was asked: those behind it still do."""
    talk = Talk()
    talk.say(C2S, {"jsonrpc": "2.0", "id": 1, "method": "a"}, {"jsonrpc": "2.0", "id": 2, "method": "b"})
    talk.say(S2C, [{"jsonrpc": "2.0", "id": number, "result": {}} for number in (1, 99, 2)])
    asked = [exchange for exchange in talk.final if exchange.request is not None]
    assert [exchange.response and exchange.response.complete for exchange in asked] == [True, True]
    lone = [exchange.response for exchange in talk.final if exchange.request is None]
    assert [message.rpc_id for response in lone if response for message in response.messages] == [99]


def test_progress_without_end_is_counted_not_kept() -> None:
    talk = Talk()
    talk.say(C2S, {"jsonrpc": "2.0", "id": 1, "method": "a"})
    told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
    talk.say(S2C, *[told] * (MESSAGES_KEPT + 10))
    talk.say(S2C, {"jsonrpc": "2.0", "id": 1, "result": {}})
    response = talk.final[0].response
    assert response is not None and response.complete and response.messages[-1].kind == "response"
    assert (len(response.messages), response.messages_dropped) == (MESSAGES_KEPT + 1, 10)
