"""Calls of LLM APIs: how many, what they used by the provider's own word, whom agents handed over to.

They are no agent protocol and no handshakes; but what an agent costs is asked of the same capture.
"""

from __future__ import annotations

from hsa.analysis.model import Exchange, Handoff, LlmUse
from hsa.dissectors.llm import handoffs
from hsa.dissectors.reading import LlmCall, Reading

ROWS_KEPT = 1_000
"""(provider, server, model) triples that are told apart; beyond it models are put together."""
IDS_KEPT = 100_000
"""Ids of tool calls that are remembered, latest last."""


class LlmTally:
    """Fed calls in order of start; again when more of one is known."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str | None], LlmUse] = {}
        self._handoffs: dict[tuple[str, str, str | None, str], Handoff] = {}
        self._calls: dict[str, None] = {}
        self._untold: dict[int, tuple[str, str, str | None]] = {}
        """Serials of calls whose usage was not told (yet), to their row."""

    def add(self, exchange: Exchange, reading: Reading) -> None:
        """One call of an API."""
        call = reading.llm
        assert call is not None
        key = (reading.protocol, exchange.authority or exchange.server, call.model)
        if key not in self._rows and len(self._rows) >= ROWS_KEPT:
            key = (reading.protocol, key[1], None)
        row = self._rows.setdefault(key, LlmUse(*key))
        row.calls += 1
        row.failed += reading.answer is not None and not reading.answer.ok
        row.bytes_up += exchange.bytes_up
        row.bytes_down += exchange.bytes_down
        if call.input_tokens is None and call.output_tokens is None:
            row.usage_unknown += 1
            self._untold[exchange.serial] = key
            if len(self._untold) > IDS_KEPT:
                del self._untold[next(iter(self._untold))]
        self._use(row, call)
        self._count_calls(row, key, call)

    def again(self, exchange: Exchange, reading: Reading) -> None:
        """More of a call is known than when it was added: its usage, which streams tell at their end."""
        call = reading.llm
        key = self._untold.get(exchange.serial)
        if call is None or key is None or (call.input_tokens is None and call.output_tokens is None):
            return
        del self._untold[exchange.serial]
        row = self._rows[key]
        row.usage_unknown -= 1
        self._use(row, call)
        self._count_calls(row, key, call)

    @staticmethod
    def _use(row: LlmUse, call: LlmCall) -> None:
        row.input_tokens += call.input_tokens or 0
        row.output_tokens += call.output_tokens or 0
        row.cached_tokens += call.cached_tokens or 0

    def _count_calls(self, row: LlmUse, key: tuple[str, str, str | None], call: LlmCall) -> None:
        """Each tool call once, by its id: the history of later requests repeats it."""
        for call_id, name in (*call.history, *call.calls):
            if call_id in self._calls:
                continue
            self._calls[call_id] = None
            if len(self._calls) > IDS_KEPT:
                del self._calls[next(iter(self._calls))]
            row.tool_calls += 1
            for _, agent in handoffs([(call_id, name)]):
                known = self._handoffs.setdefault((*key, agent), Handoff(agent, 0))
                known.count += 1
                if known.count == 1:
                    row.handoffs.append(known)

    def rows(self) -> list[LlmUse]:
        """By provider, server and model in order of first use."""
        return list(self._rows.values())
