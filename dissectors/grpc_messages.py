"""Messages of gRPC in the content of one direction of a stream, whatever the DATA frames were (gRPC over HTTP/2).

Each has a prefix of five bytes: a flag for compression and the length. Those that come after a hole cannot be told from
anything else: reading stops there.
"""

from __future__ import annotations

from hsa.dissectors.coding import decoder_for
from hsa.dissectors.contract import Chunk, Seen

PREFIX = 5
MAX_MESSAGE = 16 * 2**20
KEPT_BYTES = 16 * 2**20
MESSAGES_KEPT = 4096


class GrpcMessages:
    """Fed the content; gives messages."""

    __slots__ = ("_buffer", "_coding", "_kept", "_seen", "count", "stopped")

    def __init__(self, coding: str | None) -> None:
        """`coding` is the value of `grpc-encoding`."""
        self._coding = coding if coding not in (None, "", "identity") else None
        self._buffer = bytearray()
        self._seen: Seen | None = None
        self._kept = 0
        self.count = 0
        """Messages that came, kept or not."""
        self.stopped: str | None = None
        """Why no more are read."""

    @property
    def waiting(self) -> int:
        """Bytes held of a message that is not whole."""
        return len(self._buffer)

    def push(self, chunk: Chunk) -> list[tuple[bytes, Seen]]:
        """Messages (decompressed) that this piece completes, with where they were seen."""
        if self.stopped is not None:
            return []
        found: list[tuple[bytes, Seen]] = []
        self._seen = chunk.seen if self._seen is None else self._seen.to(chunk.seen)
        buffer = self._buffer
        buffer += chunk.data
        while len(buffer) >= PREFIX:
            size = int.from_bytes(buffer[1:PREFIX], "big")
            if buffer[0] > 1 or size > MAX_MESSAGE:
                self.stopped = "not gRPC" if buffer[0] > 1 else "limit"
                break
            if len(buffer) < PREFIX + size:
                break
            text: bytes | None = bytes(buffer[PREFIX : PREFIX + size])
            if buffer[0] == 1:
                text = self._decoded(text or b"")
            del buffer[: PREFIX + size]
            self.count += 1
            if text is not None and self.count <= MESSAGES_KEPT and self._kept + len(text) <= KEPT_BYTES:
                self._kept += len(text)
                found.append((text, self._seen))
            self._seen = chunk.seen
        if not buffer:
            self._seen = None
        return found

    def _decoded(self, data: bytes) -> bytes | None:
        room = min(MAX_MESSAGE, KEPT_BYTES - self._kept)
        if self._coding is None or self.count >= MESSAGES_KEPT or room <= 0:
            return None  # it would not be kept
        decoder = decoder_for(self._coding, room)
        if decoder is None:
            return None
        text = decoder.feed(data)
        if decoder.fault == "limit":
            self._kept = KEPT_BYTES
        return None if decoder.fault is not None else text
