"""`hsa replay serve` as a process: it says where it is, answers, and ends when asked to."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from hsa.cli.main import run

CAPTURE = str(Path(__file__).parents[2] / "fixtures" / "recorded" / "s1.acp.pcap")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_until_it_is_interrupted(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "hsa.cli.main", "replay", "serve", "--fast", CAPTURE, "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            url = re.search(r"http://127\.0\.0\.1:\d+", first)
            assert url is not None, first
            with urllib.request.urlopen(f"{url[0]}/agents", timeout=10) as answer:
                assert json.load(answer)["agents"][0]["name"] == "echo-agent"
            assert process.stdout.readline() == "GET /agents: 200, as exchange 0\n"
            process.send_signal(number)
            assert process.wait(10) == 0
        finally:
            process.kill()


def test_a_capture_without_agents(capsys: pytest.CaptureFixture[str]) -> None:
    other = Path(CAPTURE).parents[1] / "foreign" / "http-node.pcap"
    assert run(["replay", "serve", str(other)]) == 0
    assert "No exchange" in capsys.readouterr().out


def test_an_address_that_is_not_ours(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "serve", "--bind", "192.0.2.1", CAPTURE]) == 2
    error = capsys.readouterr().err
    assert "cannot listen on 192.0.2.1" in error and len(error.splitlines()) == 1
