"""Options that several commands have, and from them the `Options` of the analysis."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from hsa.analysis.options import HOPS, TOKENIZERS, Options
from hsa.cli.version import VERSION

F = TypeVar("F", bound=Callable[..., Any])
FORMATS = ("table", "json", "jsonl", "csv", "markdown")
SUFFIXES = {".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".md": "markdown"}
"""With `-o`, the ending of the file names the format unless an option does."""


def moment(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    """RFC 3339 (UTC unless it has an offset; a date alone is midnight), or seconds since the Unix epoch; gives ns."""
    if value is None:
        return None
    seconds = re.fullmatch(r"(\d{1,11})(?:\.(\d{1,9}))?", value)
    if seconds:
        return int(seconds[1]) * 1_000_000_000 + int((seconds[2] or "").ljust(9, "0"))
    fraction = re.search(r"\.(\d{1,9})", value)
    try:
        given = datetime.fromisoformat(value.replace(fraction[0], "", 1) if fraction else value)
    except ValueError:
        message = f"{value!r} is no time such as 2026-07-28T12:00:00Z or 1785240000.5"
        raise click.BadParameter(message, ctx, param) from None
    given = given if given.tzinfo else given.replace(tzinfo=UTC)
    return int(given.timestamp()) * 1_000_000_000 + int((fraction[1] if fraction else "").ljust(9, "0"))


TRACES = click.argument("traces", nargs=-1, required=True, metavar="TRACE...")
TRACES_AND_ID = click.argument("words", nargs=-1, required=True, metavar="TRACE [ID]")

_FILTERS = (
    click.option("--port", type=click.IntRange(1, 65535), multiple=True, metavar="N", help="Only this TCP port."),
    click.option("--host", multiple=True, metavar="NAME|ADDR", help="Only this host."),
    click.option("--since", callback=moment, metavar="TIME", help="Only packets from this time on (RFC 3339)."),
    click.option("--until", callback=moment, metavar="TIME", help="Only packets before this time."),
    click.option("--keylog", type=click.Path(), metavar="FILE", help="TLS secrets (NSS key log)."),
)
_RULES = (
    click.option(
        "--agent-host", multiple=True, metavar="NAME", help="An agent's name, where TLS stays shut (repeatable)."
    ),
    click.option("--require", multiple=True, metavar="NAME", help="A capability that must be offered (repeatable)."),
    click.option("--hops", type=click.Choice(HOPS), default="merged", help="Legs of one session: merged or all."),
    click.option("--idle", type=float, default=30.0, metavar="S", help="Silence after which a client is new [30]."),
    click.option("--tokenizer", type=click.Choice(TOKENIZERS), default="o200k_base", help="How tokens are counted."),
    click.option("--price", type=float, default=3.0, metavar="USD", help="USD per million tokens [3.00]."),
    click.option("--context", type=int, default=200_000, metavar="TOKENS", help="Context window [200000]."),
)
_COMMON = (
    click.option("--hash-key", metavar="TEXT", help="Key of the hashes that secrets are shown as [random]."),
    click.option("-q", "--quiet", is_flag=True, help="Nothing on standard error but errors."),
    VERSION,
)
OUTPUT = click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write to FILE.")


def filters(function: F) -> F:
    """Options that choose packets, and how a run reports."""
    return _add(function, (*_FILTERS, *_COMMON))


def rules(function: F) -> F:
    """Options that change how exchanges are put together and valued."""
    return _add(function, _RULES)


def formats(default: str) -> Callable[[F], F]:
    """`--json`, `--format`, `-o`; `default` is what the help calls the form without them."""
    choice = click.option("--format", "form", type=click.Choice(FORMATS), help=f"Form of the output [{default}].")
    as_json = click.option("--json", "as_json", is_flag=True, help="Short for --format json.")
    return lambda function: _add(function, (as_json, choice, OUTPUT))


def _add(function: F, options: tuple[Callable[[F], F], ...]) -> F:
    for option in reversed(options):
        function = option(function)
    return function


@dataclass(slots=True)
class Run:
    """How a command runs: what it was given beyond the options of the analysis."""

    options: Options
    key: bytes
    quiet: bool


def run_of(given: dict[str, Any]) -> Run:
    """The options of the analysis from a command's keyword arguments. Raises `click.UsageError` for wrong values."""
    values = {
        "port": given.get("port", ()),
        "host": given.get("host", ()),
        "since_ns": given.get("since"),
        "until_ns": given.get("until"),
        "keylog": given.get("keylog"),
        "tokenizer_tables": os.environ.get("TIKTOKEN_CACHE_DIR"),
    }
    for name, option in (
        ("agent_host",) * 2,
        ("require",) * 2,
        ("hops",) * 2,
        ("idle", "idle_s"),
        *((n, n) for n in VALUED),
    ):
        if name in given:
            values[option] = given[name]
    try:
        options = Options.of(values)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if options.keylog is not None and not os.path.isfile(options.keylog):
        raise click.UsageError(f"the key log {options.keylog} is not there")
    key = given.get("hash_key")
    return Run(options, os.urandom(16) if key is None else os.fsencode(key), bool(given.get("quiet")))


def filters_given(options: Options) -> list[str]:
    """The options that leave out part of the captures, as they are given on the command line."""
    given = [f"--port {port}" for port in options.port]
    given += [f"--host {quoted(host)}" for host in options.host]
    for name, ns in (("since", options.since_ns), ("until", options.until_ns)):
        if ns is not None:
            given.append(f"--{name} {ns // 10**9}.{ns % 10**9:09d}")
    return given


def again(options: Options, traces: Sequence[str]) -> str:
    """The options that decide which handshakes there are and the captures, as they are given on the command line."""
    given = filters_given(options)
    if options.hops != "merged":
        given.append(f"--hops {options.hops}")
    if options.idle_s != Options().idle_s:
        given.append(f"--idle {options.idle_s:g}")
    if options.keylog is not None:
        given.append(f"--keylog {quoted(options.keylog)}")
    return " ".join([*given, *("FILE" if trace == "-" else quoted(trace) for trace in traces)])


def quoted(text: str) -> str:
    """A word for the shell, harmless to a terminal: what it must not see stands as an escape in `$'...'`."""
    from hsa.analysis.redact import visible

    if visible(text) == text:
        return shlex.quote(text)
    plain = range(0x20, 0x7F)
    words = (chr(b) if b in plain and chr(b) not in "'\\" else f"\\x{b:02x}" for b in os.fsencode(text))
    return f"$'{''.join(words)}'"


def check_readable_twice(traces: Sequence[str], why: str) -> None:
    """Raise `click.UsageError` when a capture is a pipe or device, whose bytes come once."""
    for trace in traces:
        if trace == "-" or (os.path.exists(trace) and not os.path.isfile(trace) and not os.path.isdir(trace)):
            which = "standard input" if trace == "-" else trace
            raise click.UsageError(f"{why}, and {which} can be read once: name a file")


def narrowed(options: Options) -> bool:
    """Whether a filter leaves out part of the captures."""
    return bool(filters_given(options))


VALUED = ("tokenizer", "price", "context")
ID_DIGITS = 18


def split_id(words: Sequence[str]) -> tuple[list[str], int | None]:
    """Captures and the id behind them; None without one. A last word of digits is the id unless a file is called so."""
    *traces, last = words
    if traces and last.isdecimal() and len(last) <= ID_DIGITS and not os.path.exists(last):
        return traces, int(last)
    return [*words], None


def format_of(form: str | None, as_json: bool, output: str | None, default: str = "table") -> str:
    """The format asked for: by option, else by the ending of the output file, else `default`."""
    if as_json and form not in (None, "json"):
        raise click.UsageError(f"--json and --format {form} contradict each other")
    if as_json or form:
        return form or "json"
    return SUFFIXES.get(os.path.splitext(output or "")[1].lower(), default)


def figure_form(path: str, inputs: Sequence[str], forms: Sequence[str] | None = None) -> str:
    """The form of a figure (one of `forms`, or of those that matplotlib draws), by the end of its file's name. Raises
    `click.UsageError`, also for a path that cannot be written, or is there already."""
    from importlib.util import find_spec

    from hsa.analysis.drawing import FORMS
    from hsa.cli.sink import check_output

    form = path.rpartition(".")[2].lower()
    known = FORMS if forms is None else forms
    if form not in known:
        raise click.UsageError(f"a figure's name ends in .{', .'.join(known)}: {path} does not")
    if forms is None and find_spec("matplotlib") is None:
        raise click.UsageError('matplotlib is not installed. Get it with: pip install "hsa[plots]"')
    check_output(path, inputs)
    if os.path.isfile(path):
        raise click.UsageError(f"{path} is there already; name another file for the figure")
    return form
