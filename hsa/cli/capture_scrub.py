"""`hsa capture scrub`: a capture made fit to hand to strangers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import click

from hsa.cli.sink import check_output

CLASSES = ("addresses", "names", "text", "ids", "opaque")
EXAMPLE = """\b
Examples:
  hsa capture scrub trace.pcapng -o shared.pcapng
  hsa capture scrub trace.pcapng -o shared.pcapng --keep names
  hsa capture scrub trace.pcapng -o shared.pcapng --key key.bin --json
  hsa capture scrub trace.pcapng --decrypt --keylog keys.log -o shared.pcapng"""


@click.command(epilog=EXAMPLE)
@click.argument("trace", type=click.Path(exists=True, dir_okay=False), metavar="IN")
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False), metavar="OUT", help="pcapng to write.")
@click.option(
    "--keep",
    multiple=True,
    type=click.Choice(CLASSES),
    help="Leave this class as it is (repeatable). `text` is everything said in bodies, `opaque` what is not decoded.",
)
@click.option(
    "--key",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="The same key gives the same pseudonyms in several captures; without it a new one is drawn and forgotten.",
)
@click.option(
    "--decrypt",
    is_flag=True,
    help="Write what TLS carried in the clear (and scrubbed), where its secrets are in IN or --keylog.",
)
@click.option(
    "--keylog", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="TLS secrets (NSS key log)."
)
@click.option("--json", "as_json", is_flag=True, help="The report as one JSON object.")
def scrub(
    trace: str,
    output: str,
    keep: tuple[str, ...],
    key: str | None,
    decrypt: bool,
    keylog: str | None,
    as_json: bool,
) -> int:
    """Replace what is somebody's own in a capture, length for length.

    Addresses, host names, credentials, cookies, ids, names, descriptions, arguments and results become pseudonyms, the
    same one everywhere; what is not decoded is blanked, TLS secrets are dropped. hsa reads the same handshakes, phases,
    bytes and times from the result. OUT must not exist yet, and appears only when everything was replaced.
    """
    from hsa.analysis.decrypted import write_decrypted
    from hsa.analysis.redact import visible
    from hsa.analysis.scrub.rewrite import Survivors, rewrite
    from hsa.capture.files import open_traces

    if os.path.lexists(output):
        raise click.UsageError(f"-o {output} is there already; scrub overwrites nothing")
    if keylog is not None and not decrypt:
        raise click.UsageError("--keylog is for --decrypt: without it sealed bytes become noise")
    check_output(output, [trace])
    secret = os.urandom(32)
    if key is not None:
        with open(key, "rb") as file:
            secret = file.read(65_536)
        if len(secret) < 16:
            raise click.UsageError(f"--key {key} holds less than 16 bytes")
    reader = open_traces([trace])
    if reader.errors or len(reader.traces) != 1:
        raise click.ClickException(f"{trace}: {reader.errors[0][1] if reader.errors else 'no capture'}")
    with _appearing(output) as name, ExitStack() as stack:
        source, opened = reader, 0
        if decrypt:
            plain = stack.enter_context(_passing(output))
            try:
                opened = write_decrypted(trace, plain, keylog)
            except ValueError as error:
                raise click.ClickException(str(error)) from None
            source = open_traces([plain])
        try:
            report = rewrite(source, name, secret, frozenset(keep))
        except Survivors as error:
            raise click.ClickException(str(error)) from None
        if reader.errors or source.errors:
            raise click.ClickException(f"{trace}: {(reader.errors or source.errors)[0][1]}")
    cut = reader.traces[0].cut
    shown = {
        "schema": "hsa/scrub/v1",
        "packets": report.packets,
        "connections": report.connections,
        "replaced": dict(sorted(report.replaced.items())),
        "kept": sorted(keep),
        "tls_secrets_dropped": report.secrets_dropped,
        "decrypted": opened,
        "names_dropped": report.names_dropped,
        "input_cut": cut is not None,
    }
    if as_json:
        click.echo(json.dumps(shown))
        return 0
    click.echo(f"{report.packets} packets, {report.connections} TCP connections written to {visible(output)}")
    for what, count in sorted(report.replaced.items()):
        click.echo(f"  {what:<40} {count}")
    click.echo(f"  {'blocks of TLS secrets dropped':<40} {report.secrets_dropped}")
    if decrypt:
        click.echo(f"  {'TLS connections written in the clear':<40} {opened}")
    if keep:
        click.echo(f"  kept as they were: {', '.join(sorted(keep))}")
    if cut is not None:
        click.echo("  the input ends in the middle of a packet, which was left out")
    return 0


@contextmanager
def _passing(output: str) -> Iterator[str]:
    """A temporary file beside `output`, for its owner only, that is gone when the block ends."""
    import tempfile

    with tempfile.NamedTemporaryFile(prefix=".hsa-", dir=os.path.dirname(os.path.realpath(output))) as file:
        yield file.name


class _appearing:
    """A temporary file beside `output` that takes its name when the block ends well, if the name is still free."""

    def __init__(self, output: str) -> None:
        self._output = os.path.realpath(output)
        self._name = ""

    def __enter__(self) -> str:
        import tempfile

        try:
            handle, self._name = tempfile.mkstemp(prefix=".hsa-", dir=os.path.dirname(self._output))
        except OSError as error:
            raise click.ClickException(f"-o {self._output} cannot be written: {error.strerror}") from None
        os.close(handle)
        return self._name

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        try:
            if error is None:
                mask = os.umask(0)
                os.umask(mask)
                os.chmod(self._name, 0o666 & ~mask)
                os.link(self._name, self._output)
        except FileExistsError:
            raise click.ClickException(f"-o {self._output} is there already; scrub overwrites nothing") from None
        finally:
            os.unlink(self._name)
