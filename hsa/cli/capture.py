"""`hsa capture`: record traffic."""

from __future__ import annotations

import click

from hsa.cli.capture_live import live
from hsa.cli.capture_relay import relay
from hsa.cli.capture_run import run
from hsa.cli.capture_scrub import scrub
from hsa.cli.capture_stdio import stdio
from hsa.cli.generate import generate


@click.group()
def capture() -> None:
    """Record traffic for hsa to read.

    \b
    Examples:
      hsa capture live -i eth0 -o trace.pcapng
      hsa capture run -o trace.pcapng -- python client.py
      hsa capture relay --listen 9000 --to 127.0.0.1:8000 -o trace.pcapng
      hsa capture stdio -o trace.pcapng -- python server.py
      hsa capture generate s1 -o captures
      hsa capture scrub trace.pcapng -o shared.pcapng
    """


capture.add_command(live)
capture.add_command(run)
capture.add_command(relay)
capture.add_command(stdio)
capture.add_command(generate)
capture.add_command(scrub)
