"""ACP, the Agent Communication Protocol over REST: which exchanges are ACP's, what they ask, what came back.

Strategy: its nouns (`/agents`, `/runs`, `/sessions`) are everybody's, so a path alone proves nothing. A witness is a
body that only ACP has (a manifest's content types, `agent_name` with `input`), a `run-id` header, an id given out
before. What has none but would fit is *provisional*: it counts only if the same client and server show a witness.

Source: i-am-bee/acp openapi.yaml 0.2.0, acp-sdk 1.0.3; not the Agent Client Protocol, not AGNTCY's Agent Connect.
"""

from __future__ import annotations

import re
from typing import Any

from hsa.dissectors.answers import UNREADABLE_NOTES, challenged, clean, malformed, refusal, status_text, whole
from hsa.dissectors.bindings import Bindings
from hsa.dissectors.http import HttpMessage
from hsa.dissectors.reading import HANDSHAKE_PHASES, Answer, Document, Phase, Reading, Role
from hsa.dissectors.view import View, load_json, member, text

TERMINAL_STATES = frozenset(("completed", "failed", "cancelled"))
AGENTS_KEPT = 5_000
STATES_KEPT = 64
CUT_LIST = re.compile(rb'\s*\{\s*"agents"\s*:\s*\[\s*\{\s*"name"\s*:')
CUT_MANIFEST = re.compile(rb'\s*\{\s*"name"\s*:\s*"[^"]{0,256}"\s*,\s*"description"\s*:')
"""How an agent list and a manifest begin when they are cut short."""
FOREIGN = ("/threads", "/assistants", "/repos/")
"""Path parts of other services that have runs: OpenAI Assistants, LangGraph, code forges."""

_UUID = r"[0-9a-fA-F]{8}-?(?:[0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}"
_RUN = re.compile(rf".*/runs/({_UUID})(?:/(events|cancel))?\Z")
_SESSION = re.compile(rf".*/sessions?/({_UUID})\Z")
_AGENT = re.compile(r".*/agents/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)\Z")
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\Z")
_MANIFEST_MEMBERS = frozenset(
    ("name", "description", "metadata", "status", "input_content_types", "output_content_types")
)


def read(view: View, bindings: Bindings) -> Reading | None:
    """Rule 18 and tie-break 4."""
    path = view.path.rstrip("/") if view.path.endswith("/") else view.path
    if path.endswith("/agents"):
        return _agents(view, bindings) if view.verb in ("GET", "OPTIONS") else None
    if "/agents/" in path and view.verb in ("GET", "OPTIONS"):
        m = _AGENT.match(path)
        return None if m is None else _agent(view, bindings, m[1])
    if path.endswith("/runs") or "/runs/" in path:
        return _runs(view, bindings, path)
    if "/session" in path and view.verb == "GET":
        m = _SESSION.match(path)
        return None if m is None else _session(view, bindings, m[1].lower())
    if path.endswith("/ping") and view.verb == "GET":
        return _ping(view, bindings)
    return None


def _agents(view: View, bindings: Bindings) -> Reading | None:
    reading = _reading(view, "agents", Role.OPENING, Phase.DISCOVERY)
    offset = view.query().get("offset")
    if offset is not None and offset != "0":
        reading.cursor = offset[:64]
    answer = _refused(view)
    response = view.response
    if answer is None and response is not None and response.status is not None:
        document = load_json(response)
        body = response.body or b""
        items = document.get("agents") if type(document) is dict else document
        if document is None and CUT_LIST.match(body):
            bindings.bind(view, "acp")
            answer = malformed(response.seen, response.status, f"no JSON: {response.json_error or 'cut short'}")
        elif document is None:
            if body and whole(response):
                return None
            answer = _unread(response)
        elif type(items) is list:
            certain = _certain_list(items)
            if certain:
                bindings.bind(view, "acp")
            elif not _plausible_list(items, document):
                return None
            answer = _list_answer(response, items)
        elif document == {}:
            answer = malformed(response.seen, response.status, "lacks agents")
        else:
            return None
    reading.answer = answer
    return _finish(view, bindings, reading)


def _certain_list(items: list[Any]) -> bool:
    return any(type(member(i, "input_content_types")) is list and type(member(i, "name")) is str for i in items[:8])


def agent_list(response: HttpMessage, document: Any) -> Answer | None:
    """The answer that a whole agent list is; None for a document that is none for certain."""
    items = document.get("agents") if type(document) is dict else document
    if type(items) is not list or not _certain_list(items):
        return None
    return _list_answer(response, items)


def _plausible_list(items: list[Any], document: Any) -> bool:
    """Manifests as older servers write them; nothing but members that ACP knows."""
    if type(document) is dict and len(document) != 1:
        return False
    return all(
        type(i) is dict and _MANIFEST_MEMBERS.issuperset(i) and type(i.get("name")) is str and _LABEL.match(i["name"])
        for i in items[:64]
    )


def _list_answer(response: HttpMessage, items: list[Any]) -> Answer:
    names = tuple(i["name"][:256] for i in items[:AGENTS_KEPT] if type(member(i, "name")) is str)
    if len(names) < min(len(items), AGENTS_KEPT):
        return malformed(response.seen, response.status, "manifest lacks name")
    answer = Answer(True, response.seen, response.status, names=names, capabilities=len(items))
    answer.documents = (Document("agents", response.body or b""),)
    return answer


def _agent(view: View, bindings: Bindings, name: str) -> Reading | None:
    reading = _reading(view, "agent", Role.OPENING, Phase.DISCOVERY)
    reading.subject = name
    answer = _refused(view)
    response = view.response
    if answer is None and response is not None and response.status is not None:
        document = load_json(response)
        if document is None:
            if CUT_MANIFEST.match(response.body or b""):
                bindings.bind(view, "acp")
                answer = malformed(response.seen, response.status, f"manifest: {response.json_error or 'cut short'}")
            elif response.body and whole(response):
                return None
            else:
                answer = _unread(response)
        elif type(document) is dict and type(document.get("input_content_types")) is list:
            bindings.bind(view, "acp")
            label = text(document.get("name"))
            if label is None:
                answer = malformed(response.seen, response.status, "manifest lacks name")
            else:
                answer = Answer(True, response.seen, response.status, names=(label,), capabilities=1)
                answer.server_name = label
                answer.documents = (Document("agent", response.body or b""),)
        elif type(document) is dict and document.get("name") == name and _MANIFEST_MEMBERS.issuperset(document):
            answer = Answer(True, response.seen, response.status, names=(name,), capabilities=1, server_name=name)
            answer.documents = (Document("agent", response.body or b""),)
        else:
            return None
    reading.answer = answer
    return _finish(view, bindings, reading)


def _runs(view: View, bindings: Bindings, path: str) -> Reading | None:
    if any(part in path for part in FOREIGN) or member(view.body, "assistant_id") is not None:
        return None
    body = view.body
    if path.endswith("/runs"):
        if view.verb == "OPTIONS" and _known(view, bindings):
            return _finish(
                view, bindings, _read_run(view, bindings, _reading(view, "runs.create", Role.TASK, Phase.TASK))
            )
        name = member(body, "agent_name")
        asked = type(name) is str and type(member(body, "input")) is list
        if view.verb != "POST" or not (asked or "run-id" in view.answer_headers):
            return None
        bindings.bind(view, "acp")
        reading = _reading(view, "runs.create", Role.TASK, Phase.TASK)
        reading.subject = text(name)
        session = text(member(body, "session_id")) or text(member(body, "session", "id"))
        reading.ids = (f"session:{session}",) if session else ()
        return _finish(view, bindings, _read_run(view, bindings, reading))
    m = _RUN.match(path)
    if m is None:
        return None
    run = f"run:{m[1].lower()}"
    operation = _run_operation(view, m[2])
    if operation is None:
        return None
    reading = _reading(view, operation, Role.TASK, Phase.TASK)
    reading.ids, reading.subject = (run,), m[1].lower()
    answered = view.answer_document() if view.response is not None else None
    witness = (
        ("acp", run) in bindings.known_ids
        or "run-id" in view.answer_headers
        or member(body, "await_resume") is not None
        or (type(member(answered, "run_id")) is str and type(member(answered, "agent_name")) is str)
        or _known(view, bindings)
    )
    if witness:
        bindings.servers.put((view.server, "acp"), True)
    elif view.status is not None and view.status < 400:
        return None
    reading.provisional = not witness
    return _finish(view, bindings, _read_run(view, bindings, reading))


def _run_operation(view: View, rest: str | None) -> str | None:
    table = {
        ("GET", None): "runs.read",
        ("GET", "events"): "runs.events",
        ("POST", None): "runs.resume",
        ("POST", "cancel"): "runs.cancel",
    }
    return table.get((view.verb, rest))


def _read_run(view: View, bindings: Bindings, reading: Reading) -> Reading:
    """The run's answer: a Run object, or the events of its stream."""
    answer = _refused(view)
    response = view.response
    if answer is None and response is not None and response.status is not None:
        answer = _run_answer(view, response)
    run_id = view.answer_headers.get("run-id")
    if answer is not None and answer.ok and run_id is not None:
        answer.ids = tuple(dict.fromkeys((f"run:{run_id[:64].lower()}", *answer.ids)))
    for name in (*(answer.ids if answer is not None else ()), *reading.ids):
        bindings.known_ids.put(("acp", name), True)
    reading.answer = answer
    return reading


def _run_answer(view: View, response: HttpMessage) -> Answer | None:
    answer = Answer(True, response.seen, response.status)
    if response.event_stream:
        if not response.data_documents:
            return None
        states: list[str] = []
        for event in response.data_documents:
            kind = member(event, "type")
            _run_facts(answer, member(event, "run"))
            if answer.state is not None and states[-1:] != [answer.state] and len(states) < STATES_KEPT:
                states.append(answer.state)
            if kind == "error" or (type(kind) is str and kind == "run.failed"):
                answer.failed = True
        answer.states = tuple(states)
        answer.terminal = answer.state is None or answer.state in TERMINAL_STATES or answer.failed
        return answer
    document = load_json(response)
    if document is None:
        if not whole(response) and response.body_note not in UNREADABLE_NOTES:
            return None
        if response.body_bytes and response.body_note not in UNREADABLE_NOTES:
            return Answer(False, response.seen, response.status, cause="other", detail="run is no JSON")
        return answer
    _run_facts(answer, document)
    return answer


def _run_facts(answer: Answer, run: Any) -> None:
    """Ids and state of a Run object; nothing from anything else."""
    if type(run) is not dict:
        return
    ids = [
        f"{kind}:{run[key][:64].lower()}"
        for kind, key in (("run", "run_id"), ("session", "session_id"))
        if text(run.get(key))
    ]
    answer.ids = tuple(dict.fromkeys((*answer.ids, *ids)))
    state = run.get("status")
    if type(state) is str:
        answer.state = state[:64].lower().replace("_", "-")
        answer.terminal = answer.state in TERMINAL_STATES
        answer.failed = answer.state == "failed"


def _session(view: View, bindings: Bindings, session: str) -> Reading | None:
    reading = _reading(view, "sessions.read", Role.SESSION, Phase.SESSION)
    reading.ids, reading.subject = (f"session:{session}",), session
    document = view.answer_document()
    found = type(document) is dict and "history" in document and "id" in document
    if found or _known(view, bindings):
        bindings.servers.put((view.server, "acp"), True)
        bindings.known_ids.put(("acp", f"session:{session}"), True)
    elif view.status is not None and view.status < 400:
        return None
    reading.provisional = not found and not _known(view, bindings)
    answer = _refused(view)
    if answer is None and view.response is not None and view.status is not None:
        answer = Answer(True, view.response.seen, view.status)
    reading.answer = answer
    return _finish(view, bindings, reading)


def _ping(view: View, bindings: Bindings) -> Reading | None:
    reading = _reading(view, "ping", Role.PING, Phase.OTHER)
    response = view.response
    if response is not None and response.status == 200 and view.answer_document() != {}:
        return None
    reading.answer = _refused(view)
    if reading.answer is None and response is not None and response.status is not None:
        reading.answer = Answer(True, response.seen, response.status)
    return _finish(view, bindings, reading)


def _known(view: View, bindings: Bindings) -> bool:
    return (view.server, "acp") in bindings.servers


def _reading(view: View, operation: str, role: Role, phase: Phase) -> Reading:
    if view.verb == "OPTIONS":
        operation = "preflight"
    return Reading("acp", operation, role, phase, transport="rest", trace_id=view.trace_id())


def _refused(view: View) -> Answer | None:
    """Redirects, demands for authentication and errors; None when the answer is to be read."""
    response = view.response
    if response is None or response.status is None:
        return None
    answer = refusal(view, response)
    if answer is not None or response.status < 400:
        return answer
    document = load_json(response)
    words = member(document, "message") or member(document, "detail")
    label = member(document, "code")
    detail = status_text(response.status, clean(label, 64), clean(words))
    return Answer(False, response.seen, response.status, cause="http-status", detail=detail)


def _unread(response: HttpMessage) -> Answer | None:
    """A 2xx metadata answer without a document."""
    if response.status == 304 or response.body_note in UNREADABLE_NOTES:
        return Answer(True, response.seen, response.status)
    if not whole(response):
        return None
    return malformed(response.seen, response.status, "no document")


def _finish(view: View, bindings: Bindings, reading: Reading) -> Reading:
    """Without a witness, here or earlier at this server, the reading is provisional."""
    path_known = bindings.protocol_of(view) == "acp"
    if reading.role in (Role.OPENING, Role.PING) and not path_known:
        reading.provisional = not _known(view, bindings)
    if reading.answer is not None and reading.phase in HANDSHAKE_PHASES and challenged(reading.answer):
        reading.phase = Phase.SESSION
    return reading
