"""How exchanges are put together: rules 2 to 5 and 7 of the definitions, on short captures."""

from __future__ import annotations

import base64

from fixtures import speech
from fixtures.craft import Tape
from fixtures.sessions import Legacy, Modern
from fixtures.speech import compact, error, request, response, result, rpc
from tests.analysis import story
from tests.analysis.story import NOT_FOUND, analysed, exchanges, get, get_card, handshakes, notes, only, send


def dialled(tape: Tape, *, session: str | None = None, **more: object) -> Legacy:
    return Legacy(tape.connect(), session=session, **more)  # type: ignore[arg-type]


def refuse(client: Legacy, method: str = "initialize", status: int = 400) -> None:
    up = client.request(rpc(client.take_id(), method, speech.initialize_params()), bare=True)
    client.say(up, response(status, compact(error(client.next_id - 1, -32600, "no"))))


# ---- rule 2: opening


def test_an_opening_of_a_client_that_is_ready_opens_a_new_handshake_also_after_tasks() -> None:
    tape = Tape()
    client = dialled(tape)
    for _ in range(3):
        client.next_id = 0
        client.shake_hands()
        client.call()
    found = handshakes(tape)
    assert [h["round_trips"] for h in found] == [3, 3, 3]
    assert [notes(h).get("repeat", 0) for h in found] == [0, 1, 1]
    assert [notes(h).get("unchanged", 0) for h in found] == [0, 1, 1]


def test_a_card_fetched_again_opens_a_new_handshake_also_on_a_kept_connection() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    for number in range(2):
        get_card(on)
        send(on, number)
    assert [h["tasks"]["operations"] for h in handshakes(tape)] == [1, 1]


def test_an_initialize_with_the_id_of_the_session_is_part_of_it() -> None:
    tape = Tape()
    client = dialled(tape, session="c" * 32)
    client.shake_hands()
    up = client.request(rpc(client.take_id(), "initialize", speech.initialize_params()))
    client.say(up, client.answer(result(client.next_id - 1, speech.initialize_result())))
    client.call()
    found = only(tape)
    assert notes(found)["re-initialized"] == 1
    assert found["refetches"]["exchanges"] == 0, "initialize is no listing"


def test_two_clients_that_initialize_side_by_side_are_two() -> None:
    tape = Tape()
    first, second = dialled(tape), dialled(tape)
    with tape.meanwhile(1):
        second.shake_hands()
    first.shake_hands()
    assert [h["round_trips"] for h in handshakes(tape)] == [3, 3]


# ---- rule 3: going on after failure


def test_a_failed_handshake_goes_on_on_its_connection() -> None:
    tape = Tape()
    client = dialled(tape)
    refuse(client)
    client.next_id = 7
    client.shake_hands()
    assert (only(tape)["round_trips"], only(tape)["retries"]) == (4, 1)


def test_it_goes_on_elsewhere_with_its_counter() -> None:
    tape = Tape()
    client = dialled(tape)
    refuse(client)
    client.on.close()
    client.on = tape.connect()
    client.shake_hands()
    assert only(tape)["round_trips"] == 4


def test_otherwise_the_failed_one_stays_and_a_new_one_opens() -> None:
    tape = Tape()
    client = dialled(tape, next_id=3)
    refuse(client)
    client.on.close()
    client.on, client.next_id = tape.connect(), 0
    client.shake_hands()
    assert [h["outcome"] for h in handshakes(tape)] == ["error", "ready"]


def test_it_goes_on_after_no_answer() -> None:
    tape = Tape()
    client = dialled(tape, next_id=3)
    client.on.up(client.request(rpc(3, "initialize", speech.initialize_params()), bare=True))
    client.on.close()
    client.on, client.next_id = tape.connect(), 0
    client.shake_hands()
    found = only(tape)
    assert (found["attempts"], found["retries"], found["round_trips"]) == (1, 1, 3)


def test_it_goes_on_where_it_was_redirected() -> None:
    tape = Tape()
    client = dialled(tape)
    up = client.request(rpc(0, "initialize", speech.initialize_params()), bare=True)
    client.say(up, response(307, b"", None, headers={"Location": "http://other.example:8001/mcp"}))
    moved = Legacy(tape.connect(server="198.51.100.21:8001"), session=None, host="other.example:8001")
    moved.shake_hands()
    found = only(tape)
    assert (found["round_trips"], found["redirects"], found["connections"]) == (4, 1, 2)


def test_a_redirect_to_a_longer_host_name_is_another_host() -> None:
    tape = Tape()
    client = dialled(tape)
    up = client.request(rpc(0, "initialize", speech.initialize_params()), bare=True)
    client.say(up, response(307, b"", None, headers={"Location": "http://other.example:80011/mcp"}))
    moved = Legacy(tape.connect(server="198.51.100.21:8001"), session=None, host="other.example:8001", next_id=7)
    moved.shake_hands()
    assert len(handshakes(tape)) == 2


def test_the_other_well_known_path_goes_on_after_404() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get(on, "/.well-known/agent-card.json", NOT_FOUND)
    on.close()
    on = tape.connect(server=story.AGENT)
    get(on, "/.well-known/agent.json", response(200, story.CARD))
    assert only(tape)["round_trips"] == 2


def test_initialize_after_a_probe_that_is_answered_too_late() -> None:
    tape = Tape()
    probe = Modern(tape.connect())
    with tape.meanwhile():
        probe.on.up(probe.request("server/discover", rpc_id="discover-1"))
        tape.wait(12_000)
        probe.on.down(response(404, compact(error("discover-1", -32601, "Method not found"))))
    tape.wait(10_000)
    client = dialled(tape)
    client.shake_hands()
    found = only(tape)
    assert (found["era"], found["outcome"], found["round_trips"]) == ("legacy", "ready", 4)
    assert found["critical_round_trips"] == 3, "the late answer came while the client went on"


# ---- rule 4: listings


def test_a_first_listing_of_a_pinned_client_opens() -> None:
    tape = Tape()
    client = Modern(tape.connect())
    client.list_tools()
    client.call()
    found = only(tape)
    assert (found["round_trips"], found["warm"], found["ready_by"]) == (1, False, "listed")


def test_listings_between_ready_and_the_first_task_are_after_ready_later_ones_refetches() -> None:
    tape = Tape()
    client = dialled(tape)
    client.shake_hands()
    client.list_tools()
    client.call()
    client.list_tools(speech.TOOLS[:1])
    client.list_tools(speech.TOOLS[:1])
    found = only(tape)
    assert (found["round_trips"], found["after_ready"]["round_trips"]) == (3, 1)
    assert (found["refetches"]["exchanges"], found["refetches"]["unchanged"]) == (2, 1)
    phases = [str(e.phase) for e in exchanges(tape)]
    assert phases == ["session", "readiness", "capability", "after-ready", "task", "after-ready", "after-ready"]


def test_a_listing_on_a_new_connection_after_the_first_task_is_a_refetch() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get_card(on)
    send(on)
    on.close()
    get(tape.connect(server=story.AGENT), "/agent/authenticatedExtendedCard", response(200, story.CARD))
    assert only(tape)["refetches"]["exchanges"] == 1


def test_keys_fetched_from_another_host_before_the_first_task_belong_to_the_handshake() -> None:
    header = (
        base64.urlsafe_b64encode(b'{"alg":"ES256","jku":"http://keys.example:9002/jwks.json"}').decode().rstrip("=")
    )
    signed = speech.card_02("http://agent.example:9000/") | {"signatures": [{"protected": header, "signature": "abc"}]}
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get_card(on, compact(signed))
    keys = tape.connect(server="198.51.100.60:9002")
    fetched = keys.exchange(request("GET", "/jwks.json", host="keys.example:9002"), response(200, b'{"keys":[]}'))
    send(on)
    found = only(tape)
    assert {name: part["round_trips"] for name, part in found["phases"].items()} == {"discovery": 1, "session": 1}
    assert (found["connections"], found["first_task"]) == (2, "ok")
    assert fetched.end is not None
    assert found["time_to_ready_ms"] == (fetched.end - on.syn_ns) / 1e6


# ---- rule 5: tasks


def test_a_task_goes_to_the_session_whose_id_it_names() -> None:
    tape = Tape()
    one, two = dialled(tape, session="a" * 32), dialled(tape, session="b" * 32)
    one.shake_hands()
    two.shake_hands()
    one.on, two.on = two.on, one.on
    one.call()
    one.call()
    assert [h["tasks"]["operations"] for h in handshakes(tape)] == [2, 0]


def test_a_task_goes_to_the_session_whose_context_it_names_after_whatever_silence() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get_card(on)
    send(on, context="")
    on.close()
    tape.wait(120_000)
    send(tape.connect(server=story.AGENT), 2, context=f"context-{1:016d}")
    assert only(tape)["tasks"]["operations"] == 2


def test_else_to_a_handshake_of_the_client_that_is_ready_and_has_had_no_task() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get_card(on)
    on.close()
    send(tape.connect(server=story.AGENT))
    found = only(tape)
    assert (found["first_task"], found["attribution"]) == ("ok", "inferred")


def test_the_interfaces_that_a_card_names_are_the_same_counterpart() -> None:
    card = compact(speech.card_02("http://worker.example:9001/"))
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get_card(on, card)
    send(tape.connect(server="198.51.100.77:9001"), host="worker.example:9001")
    assert only(tape)["first_task"] == "ok"


def test_a_handshake_that_failed_takes_no_task_of_another_connection() -> None:
    tape = Tape()
    client = dialled(tape)
    client.initialize()
    refuse(client, "tools/list")
    client.on = tape.connect()
    client.next_id = 40
    client.call()
    found = handshakes(tape)
    assert [(h["outcome"], h["warm"]) for h in found] == [("error", False), ("ready", True)]


def test_else_to_a_session_whose_counter_it_continues() -> None:
    tape = Tape()
    client = Modern(tape.connect())
    client.discover()
    client.list_tools()
    client.call()
    client.on.close()
    client.on = tape.connect()
    client.call()
    assert only(tape)["tasks"]["operations"] == 2


def test_else_it_is_a_warm_contact() -> None:
    tape = Tape()
    send(tape.connect(server=story.AGENT))
    found = only(tape)
    assert (found["warm"], found["observed"], found["outcome"]) == (True, True, "ready")
    counts = ("round_trips", "connections", "connections_opened", "bytes_up", "bytes_down", "attempts", "streams")
    assert all(found[name] == 0 for name in counts)
    times = ("ready", "time_to_ready_ms", "wire_time_ms", "time_to_outcome_ms", "client_time_to_ready_ms")
    assert all(found[name] is None for name in times)


def test_a_task_that_names_something_from_before_was_not_observed() -> None:
    tape = Tape()
    client = dialled(tape, session="d" * 32)
    client.call()
    found = only(tape)
    assert (found["warm"], found["observed"]) == (False, False)
    assert found["round_trips"] is None
    assert found["after_ready"]["round_trips"] is None


def test_without_the_syn_nothing_says_that_a_contact_was_warm() -> None:
    tape = Tape()
    send(tape.connect(server=story.AGENT, seen=False))
    assert (only(tape)["warm"], only(tape)["observed"]) == (False, False)


def test_initialized_without_initialize_was_not_observed() -> None:
    tape = Tape()
    client = dialled(tape)
    client.initialized()
    client.list_tools()
    found = only(tape)
    assert (found["observed"], found["era"]) == (False, "legacy")


def test_an_id_that_was_given_out_unseen_is_the_only_candidates() -> None:
    tape = Tape()
    client = dialled(tape, session="e" * 32)
    client.shake_hands()
    client.call()
    found = only([p for p in tape.in_order() if p.up])
    assert found["exchanges"] == [0, 1, 2]
    assert (found["round_trips"], found["bytes_down"], found["outcome"]) == (None, None, "ready")


# ---- rule 7: not handshakes


def test_refused_fetches_that_nothing_confirms_are_probes() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get(on, "/.well-known/agent-card.json", NOT_FOUND)
    get(on, "/.well-known/agent.json", NOT_FOUND)
    found = analysed(tape)
    assert (found["handshakes"], found["probes"]) == ([], 2)


def test_a_client_that_was_served_before_or_later_is_no_crawler() -> None:
    for order in ((True, False), (False, True)):
        tape = Tape()
        for served in order:
            on = tape.connect(server=story.AGENT)
            if served:
                get_card(on)
                send(on)
            else:
                get(on, "/.well-known/agent-card.json", response(500, b"oops", "text/plain"))
            on.close()
            tape.wait(60_000)
        found = analysed(tape)
        assert sorted(h["outcome"] for h in found["handshakes"]) == ["error", "ready"]
        assert found["probes"] == 0


def test_a_look_alike_without_a_witness_is_inferred() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get(on, "/agents", response(200, b'{"agents":[{"name":"pilot","description":"x"}]}'))
    assert only(tape)["attribution"] == "inferred"
    story.run(on, "886512e2-9e0d-44bd-8f29-789f320fe840", "completed")
    assert only(tape)["attribution"] == "exact"


def test_a_run_that_is_not_there_belongs_to_nobody() -> None:
    tape = Tape()
    get(tape.connect(server=story.AGENT), "/runs/886512e2-9e0d-44bd-8f29-789f320fe840", NOT_FOUND)
    assert analysed(tape)["handshakes"] == []


def test_streams_pings_and_posted_answers_are_no_round_trips() -> None:
    tape = Tape()
    client = dialled(tape, session="f" * 32)
    client.initialize()
    client.ask("ping", {}, {})
    client.initialized()
    client.get(response(405, b"", None))
    client.say(client.request(result(1, {"roots": []})), response(202, b"", None))
    client.list_tools()
    found = only(tape)
    assert (found["round_trips"], found["attempts"]) == (3, 0)


def test_a_foreign_get_on_the_same_connection_changes_nothing() -> None:
    tape = Tape()
    client = dialled(tape)
    client.initialize()
    client.on.exchange(request("GET", "/favicon.ico"), response(404, b"no", "text/plain"))
    client.initialized()
    client.list_tools()
    assert only(tape)["round_trips"] == 3
