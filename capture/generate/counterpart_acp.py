"""The ACP counterpart of acp-sdk."""

from __future__ import annotations

import os
from typing import Any

from hsa.capture.generate.cells import ABOUT, AGENT
from hsa.capture.generate.errand import Errand


async def build(errand: Errand) -> tuple[Any, list[int]]:
    """The ASGI application, and ports besides its own on which the counterpart listens."""
    # Telemetry of the server and its registration with a local platform stay out of the recording.
    os.environ["PRODUCTION_MODE"] = "true"
    from acp_sdk.server import agent
    from acp_sdk.server.app import create_app

    async def echo(input: list[Any]) -> Any:
        for message in input:
            yield message

    text = ["text/plain"]
    make = [
        agent(name=name, description=ABOUT, input_content_types=text, output_content_types=text)
        for name in errand.cell.names(AGENT)
    ]
    return create_app(*(each(echo) for each in make)), []
