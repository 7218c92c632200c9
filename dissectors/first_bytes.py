"""What a stream is, told from its first bytes.

Recognised is what some reader here understands: HTTP/1, HTTP/2, TLS, JSON-RPC lines, a PROXY header ahead of them. All
else is `other`.
"""

from __future__ import annotations

from hsa.dissectors import http1, http2, http2_frames, json_lines, proxy_protocol
from hsa.dissectors.contract import C2S, Direction, Probe
from hsa.dissectors.http1_head import find_start

HTTP, HTTP2, TLS, PROXY, OTHER = "http", "http2", "tls", "proxy", "other"
LINES = json_lines.LAYER
REASONS: dict[str, str] = {}
"""Why a recognised stream is not read."""


def kind_of(direction: Direction, data: bytes, from_start: bool) -> str | None:
    """Kind of the stream in which `direction` begins with `data`; None when more bytes must tell. `from_start`: the
    direction's beginning was captured."""
    if data[0] == 0x16 or (data[0] in (0x14, 0x15, 0x17) and not from_start):
        found = _tls(data)
        if found is not OTHER:
            return found
    verdict = http2.probe(direction, data) if from_start or direction is C2S else Probe.NO
    if verdict is not Probe.NO:
        return HTTP2 if verdict is Probe.YES else None
    if direction is C2S:
        verdict = proxy_protocol.probe(direction, data)
        if verdict is not Probe.NO:
            return PROXY if verdict is Probe.YES else None
    frames = False if from_start else http2_frames.begins(data)
    if frames:
        return HTTP2
    verdict = json_lines.probe(direction, data)
    if verdict is Probe.YES:
        return LINES
    if verdict is Probe.MORE and from_start:
        return None  # in the middle of a stream it may as well be a body, and a start line come next
    verdict = http1.probe(direction, data)
    if verdict is Probe.YES:
        return HTTP
    if not from_start and find_start(direction, data, 0, True)[0] >= 0:
        return HTTP
    if frames is None or (verdict is Probe.MORE and len(data) < 16384):
        return None
    return OTHER


def _tls(data: bytes) -> str | None:
    """A TLS record header: type, version 3.0 to 3.4, a length that is allowed (RFC 8446 section 5.1)."""
    if len(data) < 5:
        return None if len(data) < 2 or data[1] == 3 else OTHER
    size = data[3] << 8 | data[4]
    return TLS if data[1] == 3 and data[2] <= 4 and 0 < size <= 16384 + 2048 else OTHER
