"""Whether metadata that was fetched again had changed.

JSON-RPC answers are compared by their result: the id differs from answer to answer, and so do receipt times that a
server puts beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b

import orjson

from hsa.analysis.model import Exchange
from hsa.dissectors.reading import Document


def fingerprint(document: Document) -> bytes:
    """Digest of what the document says: of its `result` for a JSON-RPC message, else of all its bytes."""
    return _fingerprint(document.data)


@lru_cache(maxsize=256)
def _fingerprint(data: bytes) -> bytes:
    if b'"jsonrpc"' in data:
        try:
            message = orjson.loads(data)
        except ValueError:
            message = None
        if isinstance(message, dict) and "result" in message:
            data = orjson.dumps(message["result"])
    return blake2b(data, digest_size=16).digest()


def fingerprints(steps: Iterable[Exchange]) -> set[bytes]:
    """Of all documents that these exchanges were answered with."""
    return {fingerprint(d) for s in steps if s.answer is not None for d in s.answer.documents}


def unchanged(known: set[bytes], again: Sequence[Exchange]) -> list[Exchange]:
    """Those of `again` whose documents were all served before (`known`, or earlier in `again`), or answered 304."""
    known = set(known)
    same = []
    for step in again:
        if step.answer is None or not step.answer.ok:
            continue
        prints = fingerprints([step])
        if (prints and prints <= known) or step.status == 304:
            same.append(step)
        known |= prints
    return same
