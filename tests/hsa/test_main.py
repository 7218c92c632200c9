"""The command line as a whole: exit statuses, one-line errors, pipes, start-up."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hsa.cli.main import COMMANDS, run

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "fixtures" / "paper" / "s1.mcp-legacy.local.pcap"
HSA = [sys.executable, "-m", "hsa.cli.main"]


def command(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HSA, *map(str, arguments)], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_has_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Example" in shown
    assert f"hsa {name}".rstrip() in shown


def test_help_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import sys; from hsa.cli.main import run; run(['--help']);"
        "print(sorted({'numpy', 'scapy', 'pandas', 'tiktoken', 'rich'} & set(sys.modules)))"
    )
    start = time.perf_counter()
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"
    assert time.perf_counter() - start < 1.5  # 0.05 s on an idle machine; the promise is 0.25 s


def test_analyze_loads_nothing_it_does_not_use() -> None:
    code = (
        f"import sys; from hsa.cli.main import run; run(['analyze', '--tokenizer', 'none', {str(CAPTURE)!r}]);"
        "print(sorted({'scapy', 'pandas', 'tiktoken', 'rich', 'subprocess', 'asyncio'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[-1] == "[]"


def test_no_command_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    assert "Usage" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--version"], ["analyze", "--version"], ["show", "--version"]])
def test_version(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 0
    assert capsys.readouterr().out == "hsa 0.1.0\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["bogus"],
        ["analyze"],
        ["analyze", "--bogus", "x"],
        ["analyze", "--since", "yesterday", str(CAPTURE)],
        ["analyze", "--port", "0", str(CAPTURE)],
        ["analyze", "--idle", "0", str(CAPTURE)],
        ["analyze", "--by", "colour", str(CAPTURE)],
        ["analyze", "--sort", "colour", str(CAPTURE)],
        ["analyze", "--fail-on", "colour>1", str(CAPTURE)],
        ["analyze", "--json", "--format", "csv", str(CAPTURE)],
        ["analyze", "--each", "--by", "client", str(CAPTURE)],
        ["analyze", "--tokenizer", "gpt2", str(CAPTURE)],
        ["analyze", "--keylog", "no such file", str(CAPTURE)],
        ["analyze", "no such file"],
        ["show", "--port", "9300", str(CAPTURE), "99"],
        ["exchanges", "--engine", "tshark", "-"],
        ["extract", str(CAPTURE), "0"],
        ["extract", "/dev/null", "0", "-o", "new.pcapng"],
        ["exchanges", "--engine", "tshark", "/dev/null"],
        ["analyze", "--idle", "inf", str(CAPTURE)],
        ["analyze", "--fail-on", "round_trips>nan", str(CAPTURE)],
        ["analyze", "--keylog", "a\nb", str(CAPTURE)],
        ["analyze", "--\x1b[31m", str(CAPTURE)],
        ["\x1b[31m"],
    ],
)
def test_wrong_usage_is_one_line_and_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("hsa: ")
    assert len(shown.err.splitlines()) == 1 and "\x1b" not in shown.err


def test_what_can_be_read_is_still_analysed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no capture")
    assert run(["analyze", "--json", "--tokenizer", "none", str(text), str(CAPTURE)]) == 2
    shown = capsys.readouterr()
    assert json.loads(shown.out)["handshakes"]
    assert shown.err.splitlines() == [line for line in shown.err.splitlines() if str(text) in line]


def test_no_agent_traffic_is_fine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header = tmp_path / "header.pcap"
    header.write_bytes(CAPTURE.read_bytes()[:24])
    assert run(["analyze", str(header)]) == 0
    assert "No handshake" in capsys.readouterr().out


def test_a_fault_of_our_own_is_3(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    import hsa.analysis.pipeline

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("boom \x1b[31m")

    monkeypatch.setattr(hsa.analysis.pipeline, "Pipeline", fail)
    monkeypatch.delenv("HSA_DEBUG", raising=False)
    assert run(["analyze", str(CAPTURE)]) == 3
    shown = capsys.readouterr()
    assert "RuntimeError: boom \\x1b[31m" in shown.err and "Traceback" not in shown.err


def test_a_closed_pipe_is_quiet() -> None:
    code = f"{' '.join(HSA)} exchanges {CAPTURE} | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == "0"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("analyze {} >/dev/full", 2),
        ("analyze {} >&-", 0),
        ("analyze {} 2>&-", 0),
        ("analyze {} <&- >&- 2>&-", 0),
        ("analyze no-such-file 2>/dev/full", 2),
        ("bogus 2>/dev/full", 2),
        ("analyze - <&-", 2),
        ("analyze - - < {}", 0),
    ],
)
def test_streams_that_are_closed_or_full(line: str, status: int) -> None:
    code = " ".join([*HSA, line.format(CAPTURE)])
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == status
    assert "fault" not in done.stderr and "Traceback" not in done.stderr


def test_interrupt_gives_what_is_known_and_130() -> None:
    data = CAPTURE.read_bytes()
    with subprocess.Popen(
        [*HSA, "analyze", "--json", "--tokenizer", "none", "-"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(data[: len(data) * 2 // 3])  # more than a pipe holds: when it returns, hsa is reading
        process.stdin.flush()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None and process.stderr is not None
        shown, said = process.stdout.read(), process.stderr.read()
    assert process.returncode == 130
    assert json.loads(shown)["handshakes"]
    assert b"interrupted" in said


def test_standard_input(tmp_path: Path) -> None:
    with CAPTURE.open("rb") as file:
        piped = subprocess.run(
            [*HSA, "analyze", "--json", "--tokenizer", "none", "-"], stdin=file, capture_output=True, check=True
        )
    named = command("analyze", "--json", "--tokenizer", "none", CAPTURE)
    left, right = json.loads(piped.stdout), json.loads(named.stdout)
    assert left.pop("traces")[0]["file"] == "-" and right.pop("traces")
    assert left == right


def test_no_colour_on_a_pipe_and_with_no_color() -> None:
    assert "\x1b" not in command("analyze", CAPTURE).stdout
    script = shutil.which("script")
    if script is None:
        pytest.skip("needs script (a terminal to run in)")
    line = f"{' '.join(HSA)} analyze --tokenizer none {CAPTURE}"
    for environment, colored in (({}, True), ({"NO_COLOR": "1"}, False)):
        plain = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"}
        done = subprocess.run(
            [script, "-qec", line, "/dev/null"], capture_output=True, text=True, check=False, cwd=ROOT,
            stdin=subprocess.DEVNULL, env={**plain, **environment},
        )  # fmt: skip
        assert ("\x1b[32m" in done.stdout) is colored
