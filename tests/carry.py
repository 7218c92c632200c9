"""HTTP/1 conversations of a capture carried by HTTP/2 instead: the same messages, at the same packets.

Each message is a stream: its head a HEADERS frame, its body or each of its chunks DATA frames, the last chunk an empty
one with END_STREAM. What is no HTTP/1 message stays as it is (`rewrite`).
"""

from __future__ import annotations

from collections.abc import Sequence

from hpack import Encoder
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame

from tests.rewrite import Message, rewritten
from tests.transforms import Packet

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME = 16_384
OF_THE_CONNECTION = (b"connection", b"transfer-encoding", b"keep-alive", b"host", b"upgrade")
"""Headers that HTTP/2 has no use for (RFC 9113 section 8.2.2)."""


def over_http2(packets: Sequence[Packet]) -> list[Packet]:
    """The packets with HTTP/2 where HTTP/1 was."""
    return rewritten(packets, _Carrier().change)


class _Carrier:
    """One connection after the other, requests first."""

    def __init__(self) -> None:
        self._encoder = Encoder()
        self._stream = 1

    def change(self, message: Message, answer: bool) -> None:
        """The message as frames."""
        before = b""
        if message.start == 0:  # the first of its direction
            self._encoder, self._stream = Encoder(), 1
            before = (b"" if answer else PREFACE) + SettingsFrame(0).serialize()
        lines = message.head.decode("latin-1").split("\r\n")
        headers = [line.split(":", 1) for line in lines[1:] if line]
        fields = [(name.lower().encode("latin-1"), value.strip().encode("latin-1")) for name, value in headers]
        if answer:
            status = lines[0].split(" ")[1].encode()
            pseudo = [(b":status", status)]
        else:
            method, target, _ = (part.encode("latin-1") for part in lines[0].split(" "))
            host = dict(fields).get(b"host", b"")
            pseudo = [(b":method", method), (b":path", target), (b":authority", host), (b":scheme", b"http")]
        interim = answer and pseudo[0][1].startswith(b"1")
        head = HeadersFrame(self._stream, flags=["END_HEADERS"])
        head.data = self._encoder.encode([*pseudo, *(f for f in fields if f[0] not in OF_THE_CONNECTION)])
        length = message.header(b"content-length")
        whole = not message.chunked and (not length or int(length) == sum(map(len, message.pieces)))
        if not message.pieces and not interim and (whole or not message.chunked):
            head.flags.add("END_STREAM")
        message.head = before + head.serialize()
        message.pieces = [
            self._data(piece, whole and at == len(message.pieces) - 1) for at, piece in enumerate(message.pieces)
        ]
        if message.ending:
            message.ending = DataFrame(self._stream, flags=["END_STREAM"]).serialize()
        message.chunked = False
        if not interim:
            self._stream += 2

    def _data(self, piece: bytes, last: bool) -> bytes:
        parts = [piece[at : at + FRAME] for at in range(0, len(piece), FRAME)]
        frames = [DataFrame(self._stream, part) for part in parts]
        if last:
            frames[-1].flags.add("END_STREAM")
        return b"".join(frame.serialize() for frame in frames)
