"""Messages of A2A over gRPC in the form that its JSON has, as far as sessions need it.

Protocol buffers name fields by number only, so the numbers of the two services that are in use stand here: `lf.a2a.v1`
(A2A 1.0) and `a2a.v1` (0.2.2 to 0.3). What is not listed is passed over. Sources: the a2a.proto of each version; the
encoding of protocol buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 16
MAX_FIELDS = 20_000
STATES = (
    *("TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"),
    *("TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_REJECTED"),
    "TASK_STATE_AUTH_REQUIRED",
)
Schema = dict[int, tuple[str, str]]
"""Field number to name in JSON and type: `text`, `state`, or the name of a message; `[]` before it: repeated."""

_COMMON: dict[str, Schema] = {
    "Message": {1: ("messageId", "text"), 2: ("contextId", "text"), 3: ("taskId", "text")},
    "Task": {1: ("id", "text"), 2: ("contextId", "text"), 3: ("status", "TaskStatus")},
    "TaskStatus": {1: ("state", "state")},
    "StatusUpdate": {1: ("taskId", "text"), 2: ("contextId", "text"), 3: ("status", "TaskStatus")},
    "ArtifactUpdate": {1: ("taskId", "text"), 2: ("contextId", "text")},
    "Sent": {1: ("task", "Task"), 2: ("message", "Message")},
    "Update": {
        1: ("task", "Task"),
        2: ("message", "Message"),
        3: ("statusUpdate", "StatusUpdate"),
        4: ("artifactUpdate", "ArtifactUpdate"),
    },
    "Skill": {1: ("id", "text"), 2: ("name", "text"), 3: ("description", "text"), 4: ("tags", "[]text")},
    "Capabilities": {},
}
SCHEMAS: dict[str, dict[str, Schema]] = {
    "1.0": {
        **_COMMON,
        "Send": {2: ("message", "Message")},
        "Named": {2: ("id", "text")},
        "List": {2: ("contextId", "text"), 5: ("pageToken", "text")},
        "Listed": {1: ("tasks", "[]Task"), 2: ("nextPageToken", "text")},
        "Interface": {1: ("url", "text"), 2: ("protocolBinding", "text"), 4: ("protocolVersion", "text")},
        "Card": {
            1: ("name", "text"),
            2: ("description", "text"),
            3: ("supportedInterfaces", "[]Interface"),
            5: ("version", "text"),
            7: ("capabilities", "Capabilities"),
            12: ("skills", "[]Skill"),
        },
    },
    "0.3": {
        **_COMMON,
        "Send": {1: ("message", "Message")},
        "Named": {1: ("name", "text")},
        "Interface": {1: ("url", "text"), 2: ("transport", "text")},
        "Card": {
            1: ("name", "text"),
            2: ("description", "text"),
            3: ("url", "text"),
            5: ("version", "text"),
            7: ("capabilities", "Capabilities"),
            12: ("skills", "[]Skill"),
            14: ("preferredTransport", "text"),
            15: ("additionalInterfaces", "[]Interface"),
            16: ("protocolVersion", "text"),
        },
    },
}
METHODS: dict[str, tuple[str, str]] = {
    "SendMessage": ("Send", "Sent"),
    "SendStreamingMessage": ("Send", "Update"),
    "GetTask": ("Named", "Task"),
    "CancelTask": ("Named", "Task"),
    "SubscribeToTask": ("Named", "Update"),
    "TaskSubscription": ("Named", "Update"),
    "ListTasks": ("List", "Listed"),
    "GetExtendedAgentCard": ("", "Card"),
    "GetAgentCard": ("", "Card"),
}
"""Method to the types of its request and answer."""


def read(version: str, kind: str, data: bytes) -> dict[str, Any] | None:
    """A message as its JSON would have it; None when it does not parse or the type is not known."""
    schemas = SCHEMAS.get(version, {})
    if kind not in schemas:
        return None
    try:
        found = _message(schemas, kind, data, 0, [MAX_FIELDS])
    except ValueError:
        return None
    name = found.pop("name", None) if kind == "Named" else None
    if isinstance(name, str):
        found["id"] = name.removeprefix("tasks/")  # 0.3 names resources by path
    return found


def _message(schemas: dict[str, Schema], kind: str, data: bytes, depth: int, left: list[int]) -> dict[str, Any]:
    if depth > MAX_DEPTH:
        raise ValueError("too deep")
    schema = schemas.get(kind, {})
    found: dict[str, Any] = {}
    for number, value in fields(data):
        left[0] -= 1
        if left[0] < 0:
            raise ValueError("too many fields")
        named = schema.get(number)
        if named is None:
            continue
        name, wanted = named
        one = wanted.removeprefix("[]")
        read: Any
        if one == "state":
            read = STATES[value] if isinstance(value, int) and 0 <= value < len(STATES) else None
        elif not isinstance(value, bytes):
            continue
        elif one == "text":
            read = value.decode("utf-8", "replace")
        else:
            read = _message(schemas, one, value, depth + 1, left)
        if wanted.startswith("[]"):
            found.setdefault(name, []).append(read)
        else:
            found[name] = read
    return found


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of a message. Raises ValueError where it does not parse."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        value: int | bytes
        if kind == 0:
            value, at = _varint(data, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        elif kind == 2:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError("unknown wire type")
        if at > len(data) or not tag >> 3:
            raise ValueError("field longer than its message")
        yield tag >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("number cut off")
