"""The ladder: arrows in order, repeats folded, hostile names harmless, 80 columns."""

from __future__ import annotations

from typing import Any

from hsa.analysis.model import Note
from hsa.analysis.output import exchange_json, handshake_json, time_text
from hsa.analysis.redact import Door
from hsa.cli.ladder import folded, ladder
from hsa.cli.table import text_width
from hsa.dissectors.reading import Phase
from tests.made import MS, START, exchange, handshake

DOOR = Door(b"k")


def shown(exchanges: list[Any], **changes: Any) -> list[str]:
    h = DOOR.clean(handshake_json(handshake(0, **changes)))
    h["ready"] = time_text(START + 26 * MS)
    return list(ladder(h, [DOOR.clean(exchange_json(e, e.serial)) for e in exchanges], 80))


def cold_start() -> list[Any]:
    return [
        exchange(0),
        exchange(1, operation="notifications/initialized", status=202, phase=Phase.READINESS),
        exchange(2, operation="tools/list", phase=Phase.CAPABILITY),
    ]


def long_session() -> list[Any]:
    """60 re-opened streams and 40 tasks after a cold start."""
    exchanges = cold_start()
    for i in range(60):
        when = START + (30 + 10 * i) * MS
        exchanges.append(
            exchange(
                3 + i, operation="GET stream", method="GET", phase=Phase.STREAM, connection=40 + i, messages=[],
                request_start=when, response_start=when, response_end=when + 9 * MS,
            )
        )  # fmt: skip
    exchanges += [exchange(63 + i, operation="tools/call", phase=Phase.TASK) for i in range(40)]
    exchanges.append(exchange(103, operation="tools/call", phase=Phase.TASK, status=500))
    return exchanges


def test_a_long_session_is_a_page() -> None:
    lines = shown(long_session())
    assert len(lines) < 24
    assert any("60 x GET /mcp" in line and "60 conns" in line for line in lines)
    assert any("40 x POST tools/call" in line for line in lines)


def test_what_stands_out_is_not_folded() -> None:
    lines = shown(long_session())
    assert sum("<" in line and "500" in line for line in lines) == 1


def test_nothing_is_lost_by_folding() -> None:
    rows = [exchange_json(e, e.serial) for e in long_session()]
    sets = folded(rows)
    assert sorted(e["id"] for members in sets for e in members) == [e["id"] for e in rows]


def test_lines_fit(capsys: object) -> None:
    exchanges = [*long_session(), exchange(104, operation="x" * 300), exchange(105, operation="\u6f22" * 100)]
    for line in shown(exchanges, client="2001:db8::1234:5678", server="[2001:db8:aaaa:bbbb:cccc::1]:9300"):
        assert text_width(line) <= 80 or line.startswith(("server", "client", "handshake"))


def test_ready_stands_behind_the_answer_that_made_it() -> None:
    text = "\n".join(shown(cold_start()))
    assert text.rindex("<-") < text.index("task-ready")


def test_missing_answers_and_missing_requests() -> None:
    alone = exchange(3, method=None, target=None, operation=None, request_start=None, request_end=None, messages=[])
    unanswered = exchange(4, status=None, response_start=None, response_end=None, complete=False)
    text = "\n".join(shown([*cold_start(), alone, unanswered]))
    assert "no answer captured" in text


def test_hostile_names_are_harmless() -> None:
    attack = "\x1b]0;owned\x07\x1b[2J\u202e"
    text = "\n".join(shown([exchange(0, operation=attack, method=attack)], client_name=attack, detail=attack))
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text


def test_notes_are_whole_and_fit() -> None:
    notes = [Note("repeat", 1, ((0, 7, 9),)), Note("stalled", 2, ((0, 1, 12345),), "word " * 30 + "\u6f22" * 60)]
    lines = shown(cold_start(), notes=notes)
    at = next(i for i, line in enumerate(lines) if line.startswith("note: repeat"))
    assert lines[at].startswith("note: repeat: this client had done its handshake")
    assert lines[at + 1] == "    (frames 7-9)"
    assert lines[at + 2].startswith("note: stalled x2: word word") and lines[-1].endswith("(frames 1-12345)")
    assert all(text_width(line) <= 80 for line in lines[at:])


def test_where_it_stands() -> None:
    h = DOOR.clean(handshake_json(handshake(0)))
    assert h["frames"] == [0, 1, 42]
    assert next(line for line in ladder(h, [], 80, "a/b.pcap") if line.startswith("in ")) == "in a/b.pcap, frames 1-42"
    assert not any(line.startswith("in ") for line in ladder(h, [], 80))


def test_a_webhook_runs_the_other_way() -> None:
    called = exchange(3, operation="push", phase=Phase.OTHER, target="/hooks", messages=[])
    lines = [line for line in shown([*cold_start(), called]) if "/hooks" in line]
    assert len(lines) == 1 and "<---" in lines[0]
