"""A recorded answer made to fit a live request: ids, session ids, tokens and addresses are exchanged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hsa.replay.matching import DEEPEST, parsed

ID_MEMBERS = {
    *("messageId", "message_id", "contextId", "context_id", "taskId", "task_id", "run_id", "session_id"),
    *("progressToken", "requestId"),
}
"""Members whose value a request may choose, and its answer repeats."""
TOKEN_MEMBERS = {"access_token", "refresh_token", "id_token"}
"""Recorded secrets are not handed out: a client gets others, which work as well."""


class Rewriter:
    """What stands in a recorded answer, and what is to stand there for one live request."""

    def __init__(self, recorded: Any, live: Any, origins: Mapping[str, str], minted: Mapping[str, str]) -> None:
        """`recorded` and `live` are the documents of the two requests (None where there is none); `origins` recorded
        addresses (`http://host:port`) to live ones; `minted` recorded ids to those that this client was given."""
        self._texts: dict[str, Any] = {}
        self._rpc: tuple[Any, Any] | None = None
        self._origins, self._minted = origins, minted
        if isinstance(recorded, dict) and isinstance(live, dict):
            if "id" in recorded and "id" in live:
                self._rpc = (recorded["id"], live["id"])
            self._pair(recorded, live, 0)

    def _pair(self, recorded: Any, live: Any, depth: int) -> None:
        """Note the ids that stand at the same place in both requests."""
        if depth > DEEPEST:
            return
        if isinstance(recorded, dict) and isinstance(live, dict):
            for name, value in recorded.items():
                other = live.get(name)
                if name in ID_MEMBERS and isinstance(value, str) and isinstance(other, (str, int)):
                    self._texts[value] = other
                self._pair(value, other, depth + 1)
        elif isinstance(recorded, list) and isinstance(live, list):
            for one, other in zip(recorded, live, strict=False):
                self._pair(one, other, depth + 1)

    def body(self, data: bytes) -> bytes:
        """A body; JSON member by member, anything else by its addresses and ids only."""
        document = parsed(data)
        if document is None:
            return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        changed = self._document(document, 0)
        return data if changed == document else json.dumps(changed, ensure_ascii=False, separators=(",", ":")).encode()

    def event(self, data: bytes) -> bytes:
        """An event of an event stream: its data lines are one document, or text."""
        lines = data.splitlines(keepends=True)
        texts = [line[5:].strip(b" \r\n") for line in lines if line.startswith(b"data:")]
        if not texts:
            return data
        end = b"\r\n" if b"\r\n" in data else b"\n"
        out, said = [], False
        for line in lines:
            if not line.startswith(b"data:"):
                out.append(line)
            elif not said:
                said = True
                out.append(b"data: " + self.body(b"\n".join(texts)).replace(b"\n", end + b"data: ") + end)
        return b"".join(out)

    def text(self, text: str) -> str:
        """Addresses and given ids in a text."""
        for old, new in self._origins.items():
            text = text.replace(old, new).replace(old.replace("/", "\\/"), new.replace("/", "\\/"))
        for old, new in self._minted.items():
            text = text.replace(old, new)
        return text

    def _document(self, value: Any, depth: int) -> Any:
        if depth > DEEPEST:
            return value
        if isinstance(value, dict):
            answers = self._rpc is not None and ("result" in value or "error" in value) and "id" in value
            out = {}
            for name, member in value.items():
                if name == "id" and answers and self._rpc is not None and member == self._rpc[0]:
                    out[name] = self._rpc[1]
                elif name in TOKEN_MEMBERS and isinstance(member, str):
                    out[name] = f"replayed-{name.replace('_', '-')}"
                elif name == "progressToken" and str(member) in self._texts:
                    out[name] = self._texts[str(member)]
                else:
                    out[name] = self._document(member, depth + 1)
            return out
        if isinstance(value, list):
            return [self._document(each, depth + 1) for each in value]
        if isinstance(value, str):
            return self._texts[value] if value in self._texts else self.text(value)
        return value
