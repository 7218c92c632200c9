"""What proves that a request had to wait for an earlier answer.

Only the client's code could say for certain; what a capture can show is that the request could not have been sent
without what the answer brought, or not on that connection, or not under the protocol.
"""

from __future__ import annotations

from hsa.analysis.model import Exchange
from hsa.dissectors.reading import Role


def proof(later: Exchange, earlier: Exchange) -> str | None:
    """Why `later` could not be sent before `earlier` was answered; None when nothing shows it."""
    after, before = later.reading, earlier.reading
    if later.link is earlier.link and later.stream is None:
        return "HTTP/1.1 sends the next request on a connection after the answer to the last (RFC 9112 section 9.3)"
    if after is None or before is None:
        return None
    answer = earlier.answer
    if answer is not None:
        if after.session is not None and answer.session == after.session:
            return "it carries the session id that the answer gave out"
        if after.endpoint is not None and answer.endpoint is not None:
            return "it goes to the address that the answer gave out"
        if after.cursor is not None and answer.next_cursor is not None and after.operation == before.operation:
            return "it asks for the page that the answer named"
        if after.continues is not None and after.continues == answer.continues:
            return "it carries the token that the answer gave out"
        if set(after.ids) & set(answer.ids):
            return "it names what the answer gave out"
        if not answer.ok and (after.operation == before.operation or after.role in (Role.AUTH, Role.OPENING)):
            return "it is what a client does after that refusal"
    if after.role is Role.AUTH and before.role is Role.AUTH:
        return "a step of an authorisation needs the one before (RFC 6749)"
    if before.operation == "initialize":
        return "nothing may be sent before initialize is answered (MCP lifecycle)"
    if before.operation == "server/discover" and after.protocol == "mcp":
        return "the version to speak is known from the answer"
    if before.operation == "notifications/initialized" and after.role in (Role.LISTING, Role.TASK):
        return "operation begins after initialization (MCP lifecycle)"
    if after.role is Role.TASK and before.role in (Role.OPENING, Role.LISTING):
        return "a task is chosen from what was offered"
    return None
