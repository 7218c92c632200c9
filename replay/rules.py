"""A user's own policies, from a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from hsa.replay.edit import before, exchanges_of, give_own_line, opening_of
from hsa.replay.plan import Plan
from hsa.replay.policies import NAMED, BadPolicy, Change, Policy, in_handshake, operation_of, remove
from hsa.replay.recorded import Session


def from_file(text: str) -> list[Policy]:
    """Policies from a JSON document: a list of rules, or an object with `rules`.

    A rule is an object: `{"remove": OPERATION, "why": TEXT}` takes out the handshake's exchanges of an operation (a
    card that carries session hints makes `initialize` needless, say); `{"overlap": OPERATION, "with": OPERATION, "why":
    TEXT}` lets them go at once; `{"policy": NAME}` is one of the built-in ones. Raises BadPolicy.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadPolicy(f"no JSON: {error}") from None
    rules = document.get("rules") if isinstance(document, dict) else document
    if not isinstance(rules, list) or not rules:
        raise BadPolicy("no list of rules")
    return [_rule(rule, i + 1) for i, rule in enumerate(rules)]


def _rule(rule: Any, place: int) -> Policy:
    if not isinstance(rule, dict):
        raise BadPolicy(f"rule {place} is no object")
    if isinstance(rule.get("policy"), str):
        if rule["policy"] not in NAMED:
            raise BadPolicy(f"rule {place}: no policy {rule['policy']!r}; there are {', '.join(NAMED)}")
        return NAMED[rule["policy"]]
    why = rule.get("why")
    if not isinstance(why, str) or not why:
        raise BadPolicy(f'rule {place} does not say why the protocol allows it ("why")')
    if isinstance(rule.get("remove"), str):
        return _removing(rule["remove"], why)
    if isinstance(rule.get("overlap"), str) and isinstance(rule.get("with"), str):
        return _overlapping(rule["overlap"], rule["with"], why)
    raise BadPolicy(f'rule {place} has none of "remove", "overlap" with "with", "policy"')


def _removing(operation: str, why: str) -> Policy:
    def policy(session: Session, plan: Plan) -> Iterator[Change]:
        found = [e for e in exchanges_of(plan) if operation_of(e) == operation and in_handshake(session, e)]
        if found:
            yield remove(plan, found, why)

    return policy


def _overlapping(later: str, earlier: str, why: str) -> Policy:
    def policy(session: Session, plan: Plan) -> Iterator[Change]:
        for exchange in exchanges_of(plan):
            if operation_of(exchange) != later or not in_handshake(session, exchange):
                continue
            other = next((e for e in exchanges_of(plan) if operation_of(e) == earlier), None)
            if other is None:
                continue
            first = plan.steps[plan.requests[exchange.serial]]
            opening = opening_of(plan, first)
            begun = opening or first
            request = plan.steps[plan.requests[other.serial]]
            if begun.number in before(plan, request.number):
                continue
            own_opening = opening_of(plan, request)
            begun.waits, begun.free = (own_opening or request).waits, None
            if opening is None:
                give_own_line(plan, exchange)
            yield Change("overlapped", f"{later} with {earlier}", why, [other.serial, exchange.serial])

    return policy
