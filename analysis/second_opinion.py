"""What tshark reads of a capture, in the form of `hsa exchanges`: the lines behind `--engine tshark`.

tshark knows HTTP, not agents: protocol, operation, phase, handshake and messages are unknown, and so are bytes as sent.
Times are looked up by frame in the capture itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from hsa.analysis.output import time_text
from hsa.analysis.tshark import TsharkExchange, TsharkMessage
from hsa.capture.records import Records, frame_key


def exchange_json(exchange: TsharkExchange, number: int, trace: int, times: dict[int, int]) -> dict[str, Any]:
    """One line; `times` gives ns since the Unix epoch by frame key."""
    request, response = exchange.request, exchange.response
    sides = _sides(exchange)

    def at(message: TsharkMessage | None, first: bool) -> str | None:
        if message is None:
            return None
        return time_text(times.get(frame_key(trace, message.first_frame if first else message.frame)))

    return {
        "id": number,
        "trace": trace,
        "connection": exchange.stream,
        "stream": None,
        "http": _version(exchange),
        "client": sides[0],
        "server": sides[1],
        "method": request.method if request else None,
        "target": request.target if request else None,
        "authority": request.host if request else None,
        "status": response.status if response else None,
        "request_start": at(request, True),
        "request_end": at(request, False),
        "response_start": at(response, True),
        "response_end": at(response, False),
        "bytes_up": None,
        "bytes_down": None,
        "request_body": request.body if request else None,
        "response_body": response.body if response else None,
        "content_type": response.content_type if response else None,
        "complete": request is not None and response is not None,
        "tls": None,
        "frames": list(exchange.frames),
        "protocol": None,
        "operation": None,
        "phase": None,
        "handshake": None,
        "hop": None,
        "messages": [],
    }


def frames_of(exchanges: Iterable[TsharkExchange], trace: int) -> set[int]:
    """Frame keys whose times `exchange_json` asks for."""
    messages = (m for e in exchanges for m in (e.request, e.response) if m is not None)
    return {frame_key(trace, frame) for m in messages for frame in (m.first_frame, m.frame)}


def times_of(blocks: Iterable[Records], frames: set[int]) -> dict[int, int]:
    """Times of these frame keys, ns since the Unix epoch."""
    wanted = np.array(sorted(frames), dtype=np.int64)
    times: dict[int, int] = {}
    for block in blocks:
        rows = np.flatnonzero(np.isin(block.frame, wanted))
        times.update(zip(block.frame[rows].tolist(), block.t_ns[rows].tolist(), strict=True))
    return times


def _sides(exchange: TsharkExchange) -> tuple[str, str]:
    if exchange.request is not None:
        return exchange.request.source, exchange.request.destination
    assert exchange.response is not None
    return exchange.response.destination, exchange.response.source


def _version(exchange: TsharkExchange) -> str:
    message = exchange.request or exchange.response
    assert message is not None
    return (message.version or "HTTP/1.1").rpartition("/")[2]
