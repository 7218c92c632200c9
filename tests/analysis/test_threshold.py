"""`--fail-on`: what passes, what does not, what is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa.analysis.output import analysis_json
from hsa.analysis.threshold import PER_HANDSHAKE, ExpressionError, parse, passed
from tests.made import analysis, handshake, rich_analysis, warm

SHOWN = analysis_json(rich_analysis())
"""9 handshakes: 5 ready, 1 error, 1 with bounds, 1 A2A, 1 warm."""


@pytest.mark.parametrize(
    ("expression", "hits"),
    [
        ("handshakes>7", 1),
        ("handshakes>8", 0),
        ("handshakes.error>0", 1),
        ("handshakes.warm==1 and handshakes.inferred==1", 2),
        ("round_trips>3", 0),
        ("round_trips>=3", 8),
        ("round_trips<3", 0),
        ("time_to_ready_ms>45", 2),
        ("time_to_ready_ms.p95>45", 2),
        ("time_to_ready_ms.median > 46", 1),
        ("metadata.tokens.max>=181", 1),
        ("metadata.tokens.sum==1448", 1),
        ("phases.session.ms>7", 8),
        ("connections.failed>=14", 1),
        ("damage>0", 1),
        ("damage.gap>0", 1),
        ("damage.cut>0", 0),
        ("notes.repeat>0", 1),
        ("undecoded>1", 1),
        ("errors>0 or probes>99", 1),
        ("(probes>1 or probes>2) and handshakes.error==0", 0),
        ("bugs!=0", 0),
        ("tls_ms>0", 0),
    ],
)
def test_expressions(expression: str, hits: int) -> None:
    assert len(passed(parse(expression), SHOWN)) == hits


def test_a_bound_passes_only_what_it_proves() -> None:
    shown = analysis_json(analysis(handshake(0, round_trips=5, bound={"round_trips": "at_least"})))
    assert passed(parse("round_trips>3"), shown)
    assert not passed(parse("round_trips<9"), shown)
    assert not passed(parse("round_trips==5"), shown)


def test_warm_contacts_are_left_out() -> None:
    shown = analysis_json(analysis(warm(0)))
    assert not passed(parse("round_trips<1 or handshakes>0"), shown)


def test_lines_say_what_passed() -> None:
    (line,) = passed(parse("time_to_ready_ms>46.5"), SHOWN)
    assert line == "time_to_ready_ms > 46.5: 47 in handshake 7"


@pytest.mark.parametrize(
    "expression",
    ["", "round_trips", "round_trips>", "round_trips>x", "3>round_trips", "round_trips=3", "colour>1", "(probes>1",
     "probes>1)", "probes>1 probes>2", "__import__('os').system('x')", "probes>1 and", "round_trips.p99>1",
     "handshakes.fine>0", "round_trips>nan", "round_trips>1e999", "x" * 2000,
     "(" * 50 + "probes>1" + ")" * 50, "probes>1;probes>2"],
)  # fmt: skip
def test_refused(expression: str) -> None:
    with pytest.raises(ExpressionError):
        parse(expression)


@given(st.text(alphabet="probes_.>=<()and r1 ", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with suppress(ExpressionError):
        passed(parse(text), SHOWN)


@pytest.mark.parametrize("name", PER_HANDSHAKE)
def test_every_name_is_a_member_of_the_output(name: str) -> None:
    found = SHOWN["handshakes"][0]
    for part in name.split("."):
        if part in ("discovery", "capability", "session", "readiness"):
            return
        assert part in found
        found = found[part]


def test_a_kind_of_note_that_does_not_exist_is_told_with_the_nearest() -> None:
    with pytest.raises(ExpressionError, match=r"no kind of note named 'repeats'; is notes.repeat meant"):
        parse("notes.repeats>0")
    with pytest.raises(ExpressionError, match="no kind of damage named 'hole'"):
        parse("damage.hole>0")
    parse("notes.repeat>0 and damage.gap==0")
