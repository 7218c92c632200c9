"""What joins without an id and without a connection: silence, counters, authorisations, traces behind a proxy."""

from __future__ import annotations

from fixtures import speech
from fixtures.craft import Tape
from fixtures.sessions import Legacy, Modern
from fixtures.speech import compact, request, response, result, rpc
from hsa.analysis.clients import Clients
from hsa.analysis.going_on import speaks_against
from hsa.analysis.model import Exchange
from hsa.analysis.session import Session
from hsa.dissectors.reading import Phase, Role
from tests.analysis import story
from tests.analysis.build import exchange
from tests.analysis.story import CHALLENGE, get_card, handshakes, notes, only, send


def stateless(tape: Tape) -> Legacy:
    return Legacy(tape.connect(), session=None)


# ---- rule 6: silence


def test_a_client_that_was_silent_for_longer_than_idle_starts_anew() -> None:
    def told(wait_ms: float) -> Tape:
        tape = Tape()
        on = tape.connect(server=story.AGENT)
        get_card(on)
        on.close()
        tape.wait(wait_ms)
        send(tape.connect(server=story.AGENT))
        return tape

    assert [h["warm"] for h in handshakes(told(29_000))] == [False]
    assert [h["warm"] for h in handshakes(told(31_000))] == [False, True]
    assert [h["warm"] for h in handshakes(told(31_000), idle_s=60)] == [False]


def test_silence_with_a_connection_open_does_not_count() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get_card(on)
    tape.wait(60_000)
    send(tape.connect(server=story.AGENT))
    assert only(tape)["first_task"] == "ok"


def test_silence_of_a_session_with_an_id_does_not_count() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.shake_hands()
    client.on.close()
    tape.wait(600_000)
    client.on = tape.connect()
    client.call()
    assert only(tape)["first_task"] == "ok"


def test_silence_while_a_person_authorises_does_not_count() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    up = client.request(rpc(0, "initialize", speech.initialize_params()), bare=True)
    client.say(up, response(401, b"", None, headers=CHALLENGE))
    story.authorise(client, tape, 45_000).close()
    client.on.close()
    client.on = tape.connect()
    client.shake_hands()
    client.call()
    found = only(tape)
    assert (found["round_trips"], found["phases"]["session"]["round_trips"], found["retries"]) == (7, 5, 1)
    assert (found["user_wait_ms"], found["outcome"]) == (45_000.3, "ready")
    assert found["wire_time_ms"] < 1_000 < found["time_to_ready_ms"]


def test_an_authorisation_under_way_may_pause_between_its_steps() -> None:
    tape = Tape()
    client = stateless(tape)
    up = client.request(rpc(0, "initialize", speech.initialize_params()), bare=True)
    client.say(up, response(401, b"", None, headers=CHALLENGE))
    version = {"mcp-protocol-version": "2025-11-25"}
    metadata = {"resource": "http://mcp.example:8000/mcp", "authorization_servers": [f"http://{story.AUTH_HOST}"]}
    up = request("GET", "/.well-known/oauth-protected-resource", host=client.host, client=version)
    client.on.exchange(up, response(200, compact(metadata)))
    client.on.close()
    tape.wait(60_000)
    client.on = tape.connect()
    story.authorise(client, tape, 0).close()
    client.shake_hands()
    found = only(tape)
    assert (found["round_trips"], found["outcome"]) == (8, "ready")


def test_a_client_that_is_refused_again_and_again_begins_again_each_time() -> None:
    tape = Tape()
    for _ in range(3):
        client = stateless(tape)
        up = client.request(rpc(0, "initialize", speech.initialize_params()), bare=True)
        client.say(up, response(401, b"", None, headers=CHALLENGE))
        version = {"mcp-protocol-version": "2025-11-25"}
        for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
            client.on.exchange(request("GET", path, host=client.host, client=version), story.NOT_FOUND)
        client.on.close()
        tape.wait(1_800_000)
    found = handshakes(tape)
    assert [(h["round_trips"], h["cause"]) for h in found] == [(3, "auth-failed")] * 3


# ---- rule 1: the counter


def test_a_client_that_gives_every_request_one_id_is_one_client() -> None:
    tape = Tape()
    client = stateless(tape)
    for step in (client.initialize, client.initialized, client.list_tools, client.call, client.call):
        client.next_id = 1
        step()
    found = only(tape)
    assert (found["tasks"]["operations"], found["attribution"]) == (2, "exact")


def test_a_counter_that_starts_again_separates() -> None:
    tape = Tape()
    one = Modern(tape.connect())
    one.discover()
    one.list_tools()
    two = Modern(one.on)
    two.list_tools()
    assert len(handshakes(tape)) == 2


def counted(number: int, *, used: set[int], last: str = "tools/call", ok: bool = True) -> bool:
    """Whether `number` speaks against a session that has used some ids, the last of them for `last`."""
    latest = exchange(0, 5, last, role=Role.TASK, phase=Phase.TASK, ok=ok)
    session = Session(0, "mcp", "192.0.2.1", task_exchanges=[latest], counter=max(used), numbers=used)
    next_one = exchange(10, 15, "tools/call", role=Role.TASK, phase=Phase.TASK).reading
    assert latest.reading is not None and next_one is not None
    latest.reading.numeric_id, next_one.numeric_id = max(used), number
    return speaks_against(session, next_one)


def test_an_id_that_was_answered_is_not_used_twice() -> None:
    assert counted(3, used={1, 2, 3})
    assert not counted(4, used={1, 2, 3})
    assert not counted(3, used={1, 2, 3}, ok=False), "it was refused, and is sent again"


def test_ids_out_of_order_are_no_contradiction() -> None:
    assert not counted(4, used={2, 3, 5})


# ---- rule 1: traces


def traced(on: Modern, method: str, trace: str, value: speech.JsonObject) -> None:
    number = on.next_id
    up = on.request(method, {"name": "x"} if method == "tools/call" else {}, headers={"traceparent": trace})
    on.say(up, response(200, compact(result(number, value))))


def test_behind_a_pool_a_trace_id_says_whose_an_exchange_is() -> None:
    tape = Tape()
    one, two = Modern(tape.connect()), Modern(tape.connect())
    traces = [f"00-{digit * 32}-{'b' * 16}-01" for digit in "12"]
    tools = {"resultType": "complete", "tools": speech.TOOLS, "ttlMs": 0, "cacheScope": "private"}
    for client, trace in ((one, traces[0]), (two, traces[1])):
        traced(client, "server/discover", trace, speech.discover_result())
    one.on, two.on = two.on, one.on
    for client, trace in ((one, traces[0]), (two, traces[1])):
        traced(client, "tools/list", trace, tools)
    found = handshakes(tape)
    assert [h["exchanges"] for h in found] == [[0, 2], [1, 3]]
    assert [h["attribution"] for h in found] == ["inferred", "inferred"]


def test_several_traces_on_one_connection_make_its_joins_unsure() -> None:
    tape = Tape()
    client = Modern(tape.connect())
    traced(client, "server/discover", f"00-{'1' * 32}-{'b' * 16}-01", speech.discover_result())
    traced(client, "tools/call", f"00-{'2' * 32}-{'b' * 16}-01", {"resultType": "complete", **speech.text_content("x")})
    found = only(tape)
    assert (found["attribution"], found["first_task"]) == ("inferred", "ok")


# ---- ids


def test_the_same_id_elsewhere_at_another_time_is_another_session() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.shake_hands()
    client.on.close()
    tape.wait(3_600_000)
    other = Legacy(tape.connect("192.0.2.99", "198.51.100.99:8000"), host="elsewhere.example:8000")
    other.call()
    assert [(h["observed"], h["client"]) for h in handshakes(tape)] == [(True, "192.0.2.10"), (False, "192.0.2.99")]


def test_a_rotated_id_goes_on_with_its_session() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.shake_hands()
    number = client.take_id()
    answer = client.answer(result(number, speech.text_content("x")), headers={"Mcp-Session-Id": "f" * 32})
    client.say(client.request(rpc(number, "tools/call", {"name": "x"})), answer)
    client.session, client.on = "f" * 32, tape.connect()
    client.call()
    found = only(tape)
    assert (found["tasks"]["operations"], notes(found)["rotated"]) == (2, 1)


def test_a_session_with_an_id_takes_no_request_of_the_era_without_ids() -> None:
    session = Session(0, "mcp", "192.0.2.1", ids=("s-1",))
    modern = exchange(10, 15, "tools/call", role=Role.TASK, phase=Phase.TASK).reading
    assert modern is not None and not speaks_against(session, modern)
    modern.era = "modern"
    assert speaks_against(session, modern)


def listing(start_ms: float, end_ms: float | None, era: str = "legacy") -> Exchange:
    made = exchange(start_ms, end_ms, "tools/list", role=Role.LISTING, phase=Phase.CAPABILITY, forwarded="192.0.2.1")
    assert made.reading is not None
    made.reading.numeric_id, made.reading.era = 2, era
    return made


def test_a_counter_does_not_join_eras() -> None:
    clients = Clients(30_000_000_000)
    mine = Session(0, "mcp", "192.0.2.1", server="198.51.100.1:8000", ids=("s-1",), counter=1)
    clients.add(mine)
    for era, expected in (("legacy", mine), ("modern", None)):
        following = listing(10, 15, era)
        assert following.reading is not None
        assert clients.by_counter(following, following.reading) is expected


def test_what_went_well_when_sent_again_is_not_sent_a_third_time() -> None:
    session = Session(0, "mcp", "192.0.2.1", counter=2, numbers={2}, steps=[listing(10, None)])
    again = listing(30, 35).reading
    assert again is not None and not speaks_against(session, again)
    session.steps.append(listing(20, 25))
    assert speaks_against(session, again)
