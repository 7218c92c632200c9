"""What a gateway opens for a client has that client's session as its parent, and is not added to it."""

from __future__ import annotations

from fixtures import speech
from fixtures.craft import Tape
from fixtures.sessions import Legacy
from fixtures.speech import compact, response, result, rpc
from tests.analysis.story import handshakes


def fan_out(tape: Tape, gateway: str, backs: int = 3) -> None:
    """One client at the gateway; while it waits for its listing, the gateway shakes hands with its back servers."""
    front = Legacy(tape.connect("192.0.2.10", f"{gateway}:8000"), session="a" * 32)
    front.initialize()
    front.initialized()
    number = front.take_id()
    front.on.up(front.request(rpc(number, "tools/list", {})))
    for back in range(backs):
        behind = Legacy(tape.connect(gateway, f"10.0.0.{20 + back}:9000"), session=f"{back:032d}", name="gateway")
        behind.shake_hands()
    front.on.down(response(200, compact(result(number, {"tools": speech.TOOLS}))))
    front.call()


def test_back_sessions_point_to_the_front_one() -> None:
    tape = Tape()
    fan_out(tape, "198.51.100.20")
    found = handshakes(tape)
    assert [h["parent"] for h in found] == [None, 0, 0, 0]
    assert [h["round_trips"] for h in found] == [3, 3, 3, 3]


def test_a_server_that_dials_while_nobody_waits_does_so_for_itself() -> None:
    tape = Tape()
    Legacy(tape.connect("192.0.2.10", "198.51.100.20:8000"), session="a" * 32).shake_hands()
    Legacy(tape.connect("198.51.100.20", "10.0.0.20:9000"), session="b" * 32).shake_hands()
    assert [h["parent"] for h in handshakes(tape)] == [None, None]


def test_on_one_address_nothing_can_be_told() -> None:
    tape = Tape()
    fan_out(tape, "192.0.2.10")
    assert {h["parent"] for h in handshakes(tape)} == {None}
