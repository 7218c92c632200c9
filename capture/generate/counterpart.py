"""The counterpart process: a minimal agent built with the SDK's own server, with one echo capability or many.

It binds its port first and then says where it listens, so nobody has to probe for it. It lives until its standard
input ends, and then tells what it served.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import socket
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hsa.capture.generate.errand import Errand, say
from hsa.capture.generate.faults import Faulty
from hsa.capture.generate.served import Served

BACKLOG = 2048
STOP_S = 1


async def _http1(
    served: Any, errand: Errand, listener: socket.socket, started: Callable[[], None], end: asyncio.Event
) -> None:
    """Serve HTTP/1.1 with uvicorn, under TLS where there is a certificate, until `end`."""
    import uvicorn

    options: dict[str, Any] = {"ssl_certfile": errand.certificate} if errand.certificate else {}
    config = uvicorn.Config(
        served,
        loop="asyncio",
        http="h11",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=STOP_S,
        **options,
    )
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started:
        if serving.done():
            serving.result()
            raise RuntimeError("the server does not start")
        await asyncio.sleep(0.01)
    started()
    ending = asyncio.ensure_future(end.wait())
    await asyncio.wait([serving, ending], return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    ending.cancel()
    await serving


async def _http2(
    served: Any, errand: Errand, listener: socket.socket, started: Callable[[], None], end: asyncio.Event
) -> None:
    """Serve HTTP/2 under TLS with hypercorn until `end`."""
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"fd://{listener.fileno()}"]
    config.certfile = config.keyfile = errand.certificate
    config.alpn_protocols = ["h2"]
    config.graceful_timeout = config.shutdown_timeout = STOP_S
    config.errorlog = config.accesslog = None
    listener.detach()
    started()  # it listens already: who comes now waits
    await serve(served, config, shutdown_trigger=end.wait)


async def _serve(errand: Errand, listener: socket.socket) -> None:
    module = importlib.import_module(f"hsa.capture.generate.counterpart_{errand.cell.protocol}")
    app, ports = await module.build(errand)
    if errand.cell.compressed:
        from starlette.middleware.gzip import GZipMiddleware

        app = GZipMiddleware(app)
    served = Served(Faulty(app, errand.cell.fault, errand.slow_ms), errand.cell.pooled)
    port = listener.getsockname()[1]
    loop, end = asyncio.get_running_loop(), asyncio.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(end.set)

    def started() -> None:
        say({"ports": [port, *ports]})
        threading.Thread(target=wait_for_end, daemon=True).start()

    await (_http2 if errand.cell.http2 else _http1)(served, errand, listener, started, end)
    say({"served": served.rows})


def _listen(errand: Errand) -> socket.socket:
    """A socket that listens on the first port that is free. Raises OSError when none is."""
    for port in range(errand.port, max(errand.port, errand.port_to) + 1):
        # With the protocol named, asyncio sets TCP_NODELAY on what it accepts; without, answers wait 40 ms for an ACK.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((errand.host, port))
            listener.listen(BACKLOG)  # at once: until then another process could listen there too
            return listener
        except OSError as error:
            listener.close()
            refused = error
    raise refused


def main() -> int:
    """Read an errand and serve until standard input ends."""
    logging.disable(logging.CRITICAL)
    errand = Errand.read()
    listener = _listen(errand)
    if not errand.url:
        errand = replace(errand, url=f"{errand.cell.scheme}://{errand.host}:{listener.getsockname()[1]}")
    asyncio.run(_serve(errand, listener))
    return 0
