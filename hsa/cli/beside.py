"""What `hsa show` says below the ladder: authentication, lives of tasks, what was offered, lifetimes, what is behind.

Only what there is to say: a plain session has none of these lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hsa.cli import words

Row = Mapping[str, Any]
LIVES_SHOWN = 5
COUNTS = {
    "polls": "poll",
    "rounds": "input round",
    "retries": "retry",
    "resumptions": "resumption",
    "callbacks": "callback",
}
"""Member of a life to the word for one."""
SIGNALS = {
    "progress": "progress notification",
    "server_requests": "request of the server",
    "server_requests_answered": "of these answered",
    "cancellations": "cancellation",
    "subscriptions": "subscription",
    "subscription_events": "event of subscriptions",
    "changes_announced": "change announced",
    "changes_followed": "of these followed by a listing",
    "resumptions": "resumed stream",
}
"""Member of `signals` to words for one."""


def beside(h: Row) -> Iterator[str]:
    """The lines; `h`, a handshake, has passed the redaction door."""
    yield from _authentication(h["authentication"])
    yield from _lives(h)
    heard = [_heard(name, h["signals"][name]) for name in SIGNALS if h["signals"][name]]
    if heard:
        yield f"beside its tasks: {', '.join(heard)}"
    offered, used = h["offered"], h["used"]
    if h["protocol"] == "a2a" and offered["bindings"]:
        signed = ", signed" if offered["signed"] else ""
        yield f"offered: {_offer(offered)}{signed}; used: {_offer(used)}"
    fresh = h["freshness"]
    if fresh is not None and (fresh["lifetime_ms"] or fresh["early"] or fresh["conditional"]):
        kept = "no lifetime named"
        if fresh["lifetime_ms"] is not None:
            kept = f"may be kept {words.seconds(fresh['lifetime_ms'])}"
            kept += f" ({fresh['scope']})" if fresh["scope"] else ""
        yield (
            f"metadata {kept}; fetched early {fresh['early']} times, with a validator {fresh['conditional']} times, "
            f"not modified {fresh['not_modified']} times"
        )
    agreed = h["negotiation"]
    if agreed is not None:
        calls = words.number("structured call", agreed["structured_calls"])
        share = f", {agreed['rounds_per_call']:.2f} rounds for each" if agreed["rounds_per_call"] is not None else ""
        yield f"negotiation: {words.number('round', agreed['rounds'])}, {words.millis(agreed['ms'])} ms; {calls}{share}"
    behind = h["fan_out"]
    if behind is not None:
        yield (
            f"behind it: handshakes {words.ranges(behind['handshakes'])}; waited {words.millis(behind['wait_ms'])} ms "
            f"for them, {words.millis(behind['gateway_ms'])} ms were the gateway's own"
        )
    if h["parent"] is not None:
        yield f"opened by a gateway for handshake {h['parent']}"


def _authentication(a: Row | None) -> Iterator[str]:
    if a is None:
        return
    parts = [f"{words.number('exchange', a['exchanges'])}, {a['refused']} refused"] if a["exchanges"] else []
    parts += [f"asked for {', '.join(a['asked'])}"] if a["asked"] else []
    parts += [f"grants {', '.join(a['grants'])}"] if a["grants"] else []
    parts += [f"client {a['client'].replace('-', ' ')}"] if a["client"] else []
    parts += [f"requests carried {', '.join(a['used'])}"] if a["used"] else []
    yield f"authentication: {'; '.join(parts)}"
    for host in a["hosts"]:
        yield f"  {host['host']}: {', '.join(host['operations'])}"
    for episode in a["episodes"][:LIVES_SHOWN]:
        took = f" in {words.millis(episode['ms'])} ms" if episode["ms"] is not None else ""
        person = f", {words.millis(episode['user_wait_ms'])} ms of them a person's" if episode["user_wait_ms"] else ""
        ended = {True: "went on", False: "did not get on", None: "end not captured"}[episode["ok"]]
        frames = f" (frames {episode['frames'][1]}-{episode['frames'][2]})"
        yield f"  {episode['kind']}: {words.number('exchange', episode['exchanges'])}{took}{person}, {ended}{frames}"
    if len(a["episodes"]) > LIVES_SHOWN:
        yield f"  and {len(a['episodes']) - LIVES_SHOWN} more episodes"


def _lives(h: Row) -> Iterator[str]:
    lives: Sequence[Row] = h["lifecycles"]
    for life in lives[:LIVES_SHOWN]:
        counts = [words.number(text, life[name]) for name, text in COUNTS.items() if life[name]]
        if life["polls"]:
            counts.insert(1, f"{life['unchanged_polls']} of these without a change")
        counts += ["cancelled"] if life["cancelled"] else []
        took = f", {words.millis(life['ms'])} ms" if life["ms"] is not None else ""
        took += f" ({words.millis(life['user_wait_ms'])} waiting for input)" if life["user_wait_ms"] else ""
        states = f": {' > '.join(life['states'])}" if life["states"] else ""
        inside = f" ({', '.join(counts)})" if counts else ""
        yield f"task {life['operation']}: {words.number('exchange', life['exchanges'])}{inside}{took}{states}"
    more = len(lives) - LIVES_SHOWN + h["lifecycles_left_off"]
    if more > 0:
        yield f"and {words.number('task', more)} more of several exchanges"


def _heard(name: str, count: int) -> str:
    text = SIGNALS[name]
    return f"{count} {text}" if text.startswith("of these") else words.number(text, count)


def _offer(offer: Row) -> str:
    parts = [*offer["versions"], *offer["bindings"], *offer["schemes"]]
    return ", ".join(parts) if parts else "nothing known"
