"""A2A over HTTP+JSON: what a path says. Calls hang below the interface's own path, so suffixes are matched.

Source: A2A specification v0.3.0 and v1.0.1: HTTP+JSON binding; `/v1` in a path means 0.3.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_REST = re.compile(
    r"(?P<prefix>.*?)(?P<v1>/v1)?/(?:"
    r"message:(?P<send>send|stream)"
    r"|tasks/(?P<task>[^/:]+):(?P<act>cancel|subscribe)"
    r"|tasks/(?P<of>[^/:]+)/(?:pushNotificationConfigs|push_notification_configs)(?:/(?P<config>[^/]+))?"
    r"|tasks(?:/(?P<get>[^/:]+))?"
    r"|(?P<card>extendedAgentCard|card)"
    r")/?\Z"
)
REST_HINTS = ("/message:", "/tasks", "/extendedAgentCard", "/v1/card")


@dataclass(slots=True, frozen=True)
class RestCall:
    """One call by its method and path."""

    name: str
    """The operation as 1.0 calls it."""
    old: bool
    """Below /v1."""
    task: str | None = None
    plain: bool = False
    """A path that any API of tasks or cards may have."""


def rest_call(verb: str, path: str) -> RestCall | None:
    """The call, or None for a path that is none of A2A's."""
    m = _REST.match(path)
    if m is None:
        return None
    old = m["v1"] is not None
    if m["send"] is not None:
        return RestCall("SendMessage" if m["send"] == "send" else "SendStreamingMessage", old)
    if m["act"] is not None:
        return RestCall("CancelTask" if m["act"] == "cancel" else "SubscribeToTask", old, m["task"])
    if m["of"] is not None:
        name = {"POST": "CreateTaskPushNotificationConfig", "DELETE": "DeleteTaskPushNotificationConfig"}.get(
            verb, "GetTaskPushNotificationConfig" if m["config"] else "ListTaskPushNotificationConfigs"
        )
        return RestCall(name, old, m["of"])
    if verb != "GET" or (m["card"] is not None and (m["card"] == "card") is not old):
        return None
    if m["card"] is not None:
        return RestCall("GetExtendedAgentCard", old, plain=old)
    return RestCall("GetTask" if m["get"] else "ListTasks", old, m["get"], plain=True)
