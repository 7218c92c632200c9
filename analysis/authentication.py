"""How a session authenticated: what was asked for, what was used, which hosts gave it, and what it took later.

Kinds and hosts only: no value of a token, code or key gets here (`hsa.dissectors.oauth` keeps none).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hsa.analysis.collector import Collector
from hsa.analysis.model import Authentication, AuthenticationHost, Episode, Exchange
from hsa.analysis.readiness import Readiness, order_of, start_of
from hsa.analysis.session import Session, end_of, is_authentication, is_browsers, is_preflight, refused
from hsa.analysis.timing import covered_ns, user_wait_ms
from hsa.dissectors.answers import challenge_parameter
from hsa.dissectors.reading import Role

HOSTS_KEPT = 16
EPISODES_KEPT = 256


def authentication(session: Session, found: Readiness) -> Authentication | None:
    """Of the whole session; None where nothing was asked for, used or fetched."""
    steps = [*found.members, *_later(session, found)]
    result = Authentication()
    asked: dict[str, None] = {}
    used: dict[str, None] = {}
    grants: dict[str, None] = {}
    hosts: dict[str, dict[str, None]] = {}
    for step in steps:
        reading, answer = step.reading, step.answer
        assert reading is not None
        if reading.credential is not None and reading.role is not Role.AUTH:
            used[reading.credential] = None
        if not is_authentication(step) or is_browsers(step) or is_preflight(step):
            continue
        result.exchanges += 1
        result.refused += refused(step)
        if answer is not None and answer.challenge:
            asked[answer.challenge.split(" ", 1)[0]] = None
        if reading.role is not Role.AUTH:
            continue
        hosts.setdefault(step.authority or step.server, {})[reading.operation] = None
        if reading.operation == "token":
            if reading.subject:
                grants[reading.subject] = None
            result.client = result.client or "known"
        if reading.operation == "register" and not refused(step):
            result.client = "registered"
        if reading.client is not None and result.client != "registered":
            result.client = reading.client
    result.asked, result.used, result.grants = tuple(asked), tuple(used), tuple(grants)
    result.hosts = [AuthenticationHost(host, tuple(names)) for host, names in list(hosts.items())[:HOSTS_KEPT]]
    result.episodes = [episode for episode, _ in episodes(session, found)][:EPISODES_KEPT]
    return result if result.exchanges or used else None


def add(sums: Authentication | None, more: Authentication | None) -> Authentication | None:
    """Both together."""
    if sums is None or more is None:
        return sums or more
    hosts = {h.host: dict.fromkeys(h.operations) for h in sums.hosts}
    for host in more.hosts:
        hosts.setdefault(host.host, {}).update(dict.fromkeys(host.operations))
    return Authentication(
        asked=tuple(dict.fromkeys(sums.asked + more.asked)),
        used=tuple(dict.fromkeys(sums.used + more.used)),
        grants=tuple(dict.fromkeys(sums.grants + more.grants)),
        client="registered" if "registered" in (sums.client, more.client) else _stronger(sums.client, more.client),
        exchanges=sums.exchanges + more.exchanges,
        refused=sums.refused + more.refused,
        hosts=[AuthenticationHost(host, tuple(names)) for host, names in list(hosts.items())[:HOSTS_KEPT]],
        episodes=[*sums.episodes, *more.episodes][:EPISODES_KEPT],
    )


def _stronger(one: str | None, other: str | None) -> str | None:
    """`known` says the least."""
    return next((kind for kind in (one, other) if kind not in (None, "known")), one or other)


def _later(session: Session, found: Readiness) -> list[Exchange]:
    """What came after the handshake: listings, tasks, authentication."""
    members = set(map(id, found.members))
    return sorted((s for s in [*session.steps, *session.task_exchanges] if id(s) not in members), key=order_of)


def episodes(session: Session, found: Readiness) -> list[tuple[Episode, list[Exchange]]]:
    """Authentication after the handshake, each with its exchanges: from the refusal that opened it (or the token
    request that nothing asked for) to the answer of the request that was repeated."""
    result: list[tuple[Episode, list[Exchange]]] = []
    current: list[Exchange] = []
    for step in _later(session, found):
        if is_authentication(step):
            if current and _repeats(current[0], step) and any(map(_grants, current)):
                result.append(_episode(current, step))  # a new token was refused too: the next one begins here
                current = []
            current.append(step)
        elif current:
            result.append(_episode(current, step))
            current = []
    if current:
        result.append(_episode(current, None))
    return result


def _grants(step: Exchange) -> bool:
    """A token was given."""
    reading, answer = step.reading, step.answer
    return reading is not None and reading.operation == "token" and answer is not None and answer.ok and answer.terminal


def _repeats(refusal: Exchange, step: Exchange) -> bool:
    a, b = refusal.reading, step.reading
    return a is not None and b is not None and a.role is not Role.AUTH and a.operation == b.operation


def _episode(steps: list[Exchange], following: Exchange | None) -> tuple[Episode, list[Exchange]]:
    challenge = next((s for s in steps if s.reading is not None and s.reading.role is not Role.AUTH), None)
    walked = [s for s in steps if s.reading is not None and s.reading.role is Role.AUTH]
    grants = [s.reading.subject for s in walked if s.reading is not None and _grants(s)]
    reason = challenge_parameter(challenge.answer.challenge if challenge and challenge.answer else None, "error")
    if not walked:
        kind = "refused"
    elif reason == "insufficient_scope":
        kind = "step-up"
    elif grants[-1:] == ["refresh_token"]:
        kind = "refresh"
    else:
        kind = "renewal"
    end = max(end_of(s) for s in steps)
    ok: bool | None = bool(grants)
    if challenge is not None:
        repeated = following is not None and _repeats(challenge, following)
        ok = bool(walked) and repeated and following is not None and not refused(following)
        if repeated and following is not None and following.answer is None and following.unseen:
            ok = None
        if repeated and following is not None:
            end = max(end, end_of(following))
        ms: float | None = max(0, end - start_of(steps[0])) / 1e6
    else:
        ms = covered_ns((start_of(s), end_of(s)) for s in steps) / 1e6
    counted = [s for s in steps if not is_browsers(s) and not is_preflight(s)]
    frames = (steps[0].first_frame, max(s.last_frame for s in steps))
    return Episode(kind, len(counted), ms, user_wait_ms(steps), ok, frames), steps


def remark(note: Collector, session: Session, found: Readiness) -> None:
    """Notes: authenticated again, credentials that ran out, an authorisation that goes round in circles."""
    later = episodes(session, found)
    for episode, steps in later:
        if episode.kind != "refused":
            ended = "and went on" if episode.ok else "and did not get on" if episode.ok is False else ""
            note("re-authenticated", steps[:1], f"{episode.kind}: {episode.exchanges} exchanges {ended}".rstrip())
    expired = [
        s
        for s in session.task_exchanges
        if s.status == 401 and is_authentication(s) and s is not session.first_task and s not in found.members
    ]
    if expired:
        renewed = sum(1 for e, _ in later if e.ok and e.kind in ("refresh", "renewal"))
        word = "renewed" if renewed else "never renewed"
        note("credentials-expired", expired, f"tasks were refused with 401, the credentials were {word}")
    _loop(note, found.members)


def _loop(note: Collector, members: Sequence[Exchange]) -> None:
    """Tokens were given and refused, again and again, within one handshake."""
    tokens = [s for s in members if _grants(s)]
    if len(tokens) < 3:
        return
    gaps = sorted(start_of(b) - start_of(a) for a, b in pairwise(tokens))
    period = gaps[len(gaps) // 2] / 1e9
    note("loop", tokens, f"{len(tokens)} tokens were given and refused, one every {period:.1f} s", count=len(tokens))
