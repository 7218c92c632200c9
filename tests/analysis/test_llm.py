"""Calls of LLM APIs are summed by provider, server and model; each tool call counts once."""

from __future__ import annotations

from hsa.analysis.llm import LlmTally
from hsa.dissectors.contract import Seen
from hsa.dissectors.reading import Answer, LlmCall, Phase, Reading, Role
from tests.made import exchange


def reading(call: LlmCall, ok: bool = True) -> Reading:
    made = Reading("openai", "chat.completions", Role.TASK, Phase.TASK, llm=call)
    made.answer = Answer(ok, Seen(0, 0, 0, 0), 200 if ok else 500)
    return made


def test_a_handoff_is_counted_once_however_often_it_is_repeated() -> None:
    tally = LlmTally()
    handoff = ("call_1", "transfer_to_billing")
    tally.add(exchange(0), reading(LlmCall("m", 10, 5, calls=(handoff,))))
    for serial in (1, 2):
        tally.add(
            exchange(serial), reading(LlmCall("m", 20, 5, history=(handoff,), calls=(("c" + str(serial), "look"),)))
        )
    (row,) = tally.rows()
    assert (row.calls, row.input_tokens, row.tool_calls) == (3, 50, 3)
    assert [(h.agent, h.count) for h in row.handoffs] == [("billing", 1)]


def test_usage_that_a_stream_tells_at_its_end() -> None:
    tally = LlmTally()
    tally.add(exchange(0), reading(LlmCall("m")))
    (row,) = tally.rows()
    assert (row.usage_unknown, row.input_tokens) == (1, 0)
    tally.again(exchange(0), reading(LlmCall("m", 7, 3)))
    tally.again(exchange(0), reading(LlmCall("m", 7, 3)))
    assert (row.usage_unknown, row.input_tokens, row.output_tokens) == (0, 7, 3)


def test_models_and_servers_apart_and_failures_counted() -> None:
    tally = LlmTally()
    tally.add(exchange(0, authority="a"), reading(LlmCall("m", 1, 1)))
    tally.add(exchange(1, authority="b"), reading(LlmCall("m", 1, 1), ok=False))
    assert [(r.server, r.failed) for r in tally.rows()] == [("a", 0), ("b", 1)]
