"""Options: times, formats, and what the analysis gets of them."""

from __future__ import annotations

import os
import subprocess

import click
import pytest

from hsa.cli.options import again, format_of, moment, narrowed, quoted, run_of, split_id

CONTEXT = click.Context(click.Command("x"))
PARAMETER = click.Option(["--since"])


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01", 0),
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-01 00:00:00.123456789", 123456789),
        ("1970-01-01T00:00:00.1Z", 10**8),
        ("2026-07-28T12:00:00Z", 1_785_240_000_000_000_000),
        ("1785240000", 1_785_240_000_000_000_000),
        ("1785240000.000000001", 1_785_240_000_000_000_001),
        ("0", 0),
    ],
)
def test_times(text: str, ns: int) -> None:
    assert moment(CONTEXT, PARAMETER, text) == ns


@pytest.mark.parametrize("text", ["yesterday", "", "12:00", "1e9", "-5", "2026-13-01"])
def test_no_times(text: str) -> None:
    with pytest.raises(click.BadParameter):
        moment(CONTEXT, PARAMETER, text)


def test_format_by_option_then_by_file() -> None:
    assert format_of(None, False, None) == "table"
    assert format_of(None, True, None) == "json"
    assert format_of("csv", False, "x.json") == "csv"
    assert format_of(None, False, "x.JSONL") == "jsonl"
    assert format_of(None, False, "x.txt", "jsonl") == "jsonl"
    with pytest.raises(click.UsageError):
        format_of("csv", True, None)


def test_an_id_that_is_none_is_a_file() -> None:
    assert split_id(["a.pcap", "7"]) == (["a.pcap"], 7)
    assert split_id(["a.pcap", "9" * 5000]) == (["a.pcap", "9" * 5000], None)


def test_file_names_for_the_shell() -> None:
    for name in (b"plain", b"with space", b"it's", b"a\nb\x1b[31m'\\\xff\xe2\x80\xae"):
        word = quoted(os.fsdecode(name))
        assert word.isprintable()
        back = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
        assert back.stdout == name


def test_options_of_the_analysis() -> None:
    run = run_of({"port": (80, 81), "host": ("a",), "since": 5, "idle": 7.0, "hops": "all", "hash_key": "k"})
    o = run.options
    assert (o.port, o.host, o.since_ns, o.idle_s, o.hops, run.key) == ((80, 81), ("a",), 5, 7.0, "all", b"k")
    assert run_of({}).key != run_of({}).key
    assert not narrowed(run_of({}).options) and narrowed(o)
    with pytest.raises(click.UsageError):
        run_of({"since": 5, "until": 5})


def test_the_next_command_repeats_what_decides_ids() -> None:
    o = run_of({"port": (80,), "host": ("a b",), "since": 1_500_000_000, "hops": "all", "idle": 5.0}).options
    assert again(o, ["x y"]) == "--port 80 --host 'a b' --since 1.500000000 --hops all --idle 5 'x y'"
    assert again(run_of({}).options, ["-"]) == "FILE"
