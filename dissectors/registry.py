"""Every dissector and every protocol reader, by name: the one place where a new protocol is entered."""

from __future__ import annotations

from hsa.dissectors import http1, jsonrpc, proxy_protocol, sse
from hsa.dissectors.contract import Spec
from hsa.dissectors.recognise import RULES

ALL: tuple[Spec, ...] = (proxy_protocol.SPEC, http1.SPEC, sse.SPEC, jsonrpc.SPEC)
"""Dissectors of byte streams, bottom to top."""
READERS = RULES
"""Readers of whole exchanges, in the order in which they are asked."""
