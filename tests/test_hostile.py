"""A capture made to attack its reader: nothing of it reaches a terminal or file as it is, in any command or format."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import hsa
from fixtures import speech
from fixtures.craft import Tape
from fixtures.files import pcap
from fixtures.sessions import Legacy
from hsa.cli.main import run

ATTACK = "\x1b]0;owned\x07\x1b[2J\u202e=cmd|' /C calc'!A0<script>alert(1)</script>[red]x[/]`b`|"
SECRETS = {
    "bearer": "tok-Zq8XkP3vR7mN1bW5yT0cL4",
    "query": "QueryS3cret-abcdefgh12345",
    "cookie": "sid=C00kieS3cretValue99",
    "session": "5e551011-dead-4eef-8000-0123456789ab",
    "failed": "Sh0uldN0tBeSeenInDetail42",
}
FORMATS = ("table", "json", "jsonl", "csv", "markdown")


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tape = Tape()
    client = Legacy(
        tape.connect(),
        path=f"/mcp?access_token={SECRETS['query']}",
        session=SECRETS["session"],
        name=ATTACK,
        extra={"Authorization": f"Bearer {SECRETS['bearer']}", "Cookie": SECRETS["cookie"]},
    )
    client.initialize(speech.initialize_result(name=ATTACK))
    client.initialized()
    client.list_tools([speech.tool(ATTACK, ATTACK), speech.tool(f"Bearer {SECRETS['bearer']}")])
    client.call(ATTACK)
    client.on.close()
    tape.wait(60_000)
    refused = Legacy(tape.connect(), name=ATTACK, session=None)
    rpc_error = speech.error(0, -32600, f"{ATTACK} session {SECRETS['session']} token: Bearer {SECRETS['failed']}")
    refused.initialize(rpc_error)
    refused.on.close()
    path = tmp_path_factory.mktemp("hostile") / "hostile.pcap"
    path.write_bytes(pcap(tape.in_order()))
    return path


def check(text: str) -> None:
    for name, secret in SECRETS.items():
        value = secret.partition("=")[2] if name == "cookie" else secret
        assert value not in text, name
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


COMMANDS = [
    *(["analyze", *each, "--format", form] for form in FORMATS for each in ([], ["--each"])),
    *(["exchanges", "--format", form] for form in FORMATS),
    ["show"],
    ["analyze", "--fail-on", "round_trips>0"],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_command_lets_it_through(arguments: list[str], capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*arguments, str(capture)]) in (0, 1)
    shown = capsys.readouterr()
    assert shown.out
    check(shown.out)
    check(shown.err)
    if "csv" in arguments:
        assert not re.search(r'(?:^|,)"?[=+@-](?!\d)', shown.out, re.MULTILINE)
    if "markdown" in arguments:
        assert not re.search(r"(?<!\\)<script", shown.out)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_no_ladder_lets_it_through(
    number: int, more: list[str], capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["show", *more, str(capture), str(number)]) == 0
    check(capsys.readouterr().out)


def test_the_library_neither(capture: Path) -> None:
    analysis = hsa.analyze(capture)
    assert [h.outcome for h in analysis.handshakes] == ["ready", "error"]
    check(repr(analysis).replace("\n", ""))
    check("".join(map(repr, hsa.exchanges(capture))))
    check(hsa.frame(capture).to_csv(lineterminator="\n"))


def test_hashes_tell_secrets_apart_within_a_run(capture: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for key in ("a", "a", "b"):
        assert run(["exchanges", "--hash-key", key, str(capture)]) == 0
        shown.append(set(re.findall(r"access_token=(bearer#[0-9a-f]{6})", capsys.readouterr().out)))
    assert len(shown[0]) == 1 and shown[0] == shown[1] != shown[2]


def test_hostile_file_names(capture: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    evil = tmp_path / "a\x1b[31m\nb.pcap"
    evil.write_bytes(capture.read_bytes())
    assert run(["analyze", str(evil)]) == 0
    check(capsys.readouterr().out)
    assert run(["analyze", str(tmp_path / "no\x1b[31m")]) == 2
    check(capsys.readouterr().err)
