"""The second opinion: HTTP/1 exchanges as Wireshark's dissectors see them.

tshark is run as a plain process and its PDML is read as it comes, one packet at a time. Why not pyshark: it starts
the same process, but reads it through an event loop into one object a packet and field, gives no more fields, and hides
what tshark says on its standard error. Why PDML and not `-T ek`: only PDML keeps the messages of one packet apart and
tells the length of a body that is not text. tshark goes by port, so every port on which hsa saw HTTP is named to it,
and it runs with preferences of its own, not with the user's.

Pairing is tshark's: an answer belongs to the request that its `http.request_in` names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO
from xml.etree.ElementTree import Element, ParseError, iterparse

from hsa.analysis import tshark_http2
from hsa.analysis.tshark_http2 import TsharkStream

PREFERENCES = (
    "tcp.desegment_tcp_streams:TRUE",
    "http.desegment_headers:TRUE",
    "http.dechunk_body:TRUE",
    "http.decompress_body:FALSE",  # body lengths are taken before content coding
)
MAX_PENDING = 10_000
"""Requests of one stream that wait for an answer; the oldest are given out unanswered beyond that."""


class TsharkMissing(RuntimeError):
    """tshark is not installed."""


class TsharkFailed(RuntimeError):
    """tshark read nothing of a file; the message says why, in one line."""


@dataclass(slots=True)
class TsharkMessage:
    """One HTTP/1 message."""

    stream: int
    """`tcp.stream`."""
    frame: int
    """Frame in which its last byte stands, as far as tshark saw."""
    first_frame: int
    """First frame it was put together from."""
    source: str
    """Address and port of the sender."""
    destination: str
    """Address and port of the receiver."""
    method: str | None = None
    """None for an answer."""
    target: str | None = None
    status: int | None = None
    """None for a request."""
    version: str | None = None
    host: str | None = None
    content_type: str | None = None
    body: int = 0
    """Body length after transfer coding, before content coding."""
    request_frame: int | None = None
    """Frame of the request that it answers."""
    cut: bool = False
    """The packet of its last byte was captured in part."""
    interim: bool = False
    """Of a request: tshark has linked an interim answer (1xx) to it, and so no other."""


@dataclass(slots=True)
class TsharkExchange:
    """A request and its answer; either may be missing."""

    request: TsharkMessage | None
    response: TsharkMessage | None

    @property
    def stream(self) -> int:
        """`tcp.stream`."""
        message = self.request or self.response
        assert message is not None
        return message.stream

    @property
    def frames(self) -> tuple[int, int]:
        """First and last frame."""
        messages = [m for m in (self.request, self.response) if m is not None]
        return min(m.first_frame for m in messages), max(m.frame for m in messages)


@dataclass(slots=True)
class TsharkRun:
    """What tshark found in one file."""

    exchanges: list[TsharkExchange] = field(default_factory=list)
    """In order of the frame of the request (or of a lone answer)."""
    complaint: str | None = None
    """What tshark said about the file, one line; None when it had nothing to say."""


def version() -> str:
    """First line of `tshark --version`. Raises TsharkMissing."""
    run = subprocess.run([_tshark(), "--version"], capture_output=True, text=True, check=False)
    return run.stdout.partition("\n")[0].strip()


@dataclass(slots=True, frozen=True)
class Ports:
    """TCP ports of servers, by what hsa saw there; tshark has to be told."""

    http: frozenset[int] = frozenset()
    tls: frozenset[int] = frozenset()
    """HTTP/1 inside TLS."""
    http2: frozenset[int] = frozenset()
    """HTTP/2 in clear text."""
    http2_tls: frozenset[int] = frozenset()

    def options(self) -> list[str]:
        """For tshark's command line."""
        rules = [f"tcp.port=={p},http" for p in sorted(self.http - self.tls - self.http2_tls)]
        rules += [f"tcp.port=={p},tls" for p in sorted(self.tls | self.http2_tls)]
        rules += [f"tls.port=={p},http" for p in sorted(self.tls - self.http2_tls)]
        rules += [f"tcp.port=={p},http2" for p in sorted(self.http2 - self.http)]
        return [part for rule in rules for part in ("-d", rule)]


def read_streams(path: str, ports: Ports, servers: set[tuple[str, str]], keylog: str | None) -> list[TsharkStream]:
    """HTTP/2 streams of one capture file, as tshark reads it. Raises as `read_exchanges`."""
    with tempfile.TemporaryDirectory() as settings, tempfile.TemporaryFile() as complaints:
        command = [_tshark(), "-n", "-2", "-Y", "http2", "-T", "pdml", "-J", "ip ipv6 tcp tls http2"]
        command += ["-o", "tcp.reassemble_out_of_order:TRUE", *ports.options()]
        if keylog is not None:
            command += ["-o", f"tls.keylog_file:{os.path.abspath(keylog)}"]
        command += ["-r", _named_plainly(path, settings)]
        environment = {**os.environ, "WIRESHARK_CONFIG_DIR": settings, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, env=environment)
        assert process.stdout is not None
        try:
            return tshark_http2.read_streams(process.stdout, servers)
        except ParseError as error:
            raise TsharkFailed(f"tshark's output cannot be read: {error}") from None
        finally:
            process.kill()
            process.stdout.close()
            process.wait()


def read_exchanges(
    path: str,
    ports: Ports | None = None,
    *,
    bodies: bool = True,
    out_of_order: bool = True,
    keylog: str | None = None,
) -> TsharkRun:
    """HTTP/1 exchanges of one capture file, as tshark reads it.

    `ports` are TCP ports to be taken for HTTP and TLS, `keylog` a key log file.
    tshark shows a message when its body has ended; without `bodies`
    it shows each as soon as its head has, and body lengths mean nothing. With `out_of_order` it waits for segments
    that are missing, which it does in vain when they were not captured. Raises TsharkMissing, and TsharkFailed when
    tshark cannot read the file at all; a file that ends early gives what is before its end and a `complaint`.
    """
    command = [_tshark(), "-n", "-2", "-Y", "http", "-T", "pdml", "-J", "ip ipv6 tcp tls http"]
    for preference in PREFERENCES:
        command += ["-o", preference]
    for preference, wanted in (("tcp.reassemble_out_of_order", out_of_order), ("http.desegment_body", bodies)):
        command += ["-o", f"{preference}:{'TRUE' if wanted else 'FALSE'}"]
    command += ports.options() if ports is not None else []
    if keylog is not None:
        command += ["-o", f"tls.keylog_file:{os.path.abspath(keylog)}"]
    with tempfile.TemporaryDirectory() as settings, tempfile.TemporaryFile() as complaints:
        command += ["-r", _named_plainly(path, settings)]
        environment = {**os.environ, "WIRESHARK_CONFIG_DIR": settings, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, env=environment)
        assert process.stdout is not None
        pairing = _Pairing()
        broken: str | None = None
        try:
            for message in read_pdml(process.stdout):
                pairing.take(message)
            status = process.wait()
        except ParseError as error:
            broken = f"tshark's output cannot be read: {error}"
            while process.stdout.read(2**20):
                pass  # else tshark would wait for ever
            status = process.wait()
        finally:
            process.kill()
            process.stdout.close()
            process.wait()
        complaints.seek(0)
        complaint = _complaint(complaints.read().decode("utf-8", "replace")) or broken
    if broken and status:
        raise TsharkFailed(complaint or f"tshark ended with status {status}")
    return TsharkRun(pairing.exchanges(), complaint)


def read_pdml(stream: IO[bytes]) -> Iterator[TsharkMessage]:
    """The HTTP/1 messages in tshark's PDML, packet by packet. Raises ParseError when it is no XML."""
    events = iterparse(stream, events=("start", "end"))
    root: Element | None = None
    for event, element in events:
        if root is None:
            root = element
        elif event == "end" and element.tag == "packet":
            yield from _messages(element)
            root.clear()


def _messages(packet: Element) -> Iterator[TsharkMessage]:
    frame = stream = -1
    cut = False
    addresses = ("", "")
    ports = ("", "")
    segments: list[int] = []
    for layer in packet:
        name = layer.get("name")
        if name == "geninfo":
            frame = int(_show(layer, "num") or -1)
            cut = _show(layer, "caplen") != _show(layer, "len")
        elif name in ("ip", "ipv6"):
            addresses = (_show(layer, f"{name}.src") or "", _show(layer, f"{name}.dst") or "")
        elif name == "tcp":
            stream = int(_show(layer, "tcp.stream") or -1)
            ports = (_show(layer, "tcp.srcport") or "", _show(layer, "tcp.dstport") or "")
        elif name == "http":
            source, target = (f"[{a}]:{p}" if ":" in a else f"{a}:{p}" for a, p in zip(addresses, ports, strict=True))
            message = TsharkMessage(stream, frame, min(segments, default=frame), source, target, cut=cut)
            _fill(message, layer)
            segments = []
            if message.method is not None or message.status is not None:
                yield message
        else:
            segments += [int(f.get("show", "0")) for f in layer.iter("field") if f.get("name") == "tcp.segment"]


def _fill(message: TsharkMessage, layer: Element) -> None:
    message.method = _show(layer, "http.request.method")
    message.target = _show(layer, "http.request.uri")
    status = _show(layer, "http.response.code")
    message.status = int(status) if status and message.method is None else None
    message.version = _show(layer, "http.request.version") or _show(layer, "http.response.version")
    message.host = _show(layer, "http.host")
    message.content_type = _show(layer, "http.content_type")
    message.body = _body_length(layer)
    request_frame = _show(layer, "http.request_in")
    message.request_frame = int(request_frame) if request_frame else None


def _body_length(layer: Element) -> int:
    """A body that stays under its content coding has no field, only a line of text."""
    coded = 0
    for found in layer.iter("field"):
        if found.get("name") == "http.file_data":
            return int(found.get("size", "0"))
        if found.get("show", "").startswith("Content-encoded entity body"):
            coded = int(found.get("size", "0"))
    return coded


class _Pairing:
    """Answers to requests, as tshark's own links say."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[TsharkExchange]] = {}
        self._all: list[TsharkExchange] = []

    def take(self, message: TsharkMessage) -> None:
        """The next message in frame order."""
        waiting = self._waiting.setdefault(message.stream, [])
        if message.status is None:
            exchange = TsharkExchange(message, None)
            self._all.append(exchange)
            waiting.append(exchange)
            del waiting[:-MAX_PENDING]
            return
        if 100 <= message.status < 200 and message.status != 101:
            for exchange in waiting:
                if exchange.request is not None and exchange.request.frame == message.request_frame:
                    exchange.request.interim = True
            return
        for i, exchange in enumerate(waiting):
            if exchange.request is not None and exchange.request.frame == message.request_frame:
                exchange.response = message
                del waiting[: i + 1]
                return
        self._all.append(TsharkExchange(None, message))

    def exchanges(self) -> list[TsharkExchange]:
        """All of them, in the order in which they began."""
        return sorted(self._all, key=lambda e: (e.request or e.response).frame)  # type: ignore[union-attr]


def _field(layer: Element, name: str) -> Element | None:
    return next((f for f in layer.iter("field") if f.get("name") == name), None)


def _show(layer: Element, name: str) -> str | None:
    found = _field(layer, name)
    return found.get("show") if found is not None else None


def _tshark() -> str:
    path = shutil.which("tshark")
    if path is None:
        raise TsharkMissing("tshark is not installed (it comes with Wireshark)")
    return path


def _named_plainly(path: str, folder: str) -> str:
    """`path`, or a link to it in `folder`: tshark writes the name into its XML, where not every byte can stand."""
    if path.isprintable():
        return path
    link = os.path.join(folder, "capture")
    os.symlink(os.path.abspath(path), link)
    return link


def _complaint(text: str) -> str | None:
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("Running as user", "** (tshark"))]
    return " ".join(lines)[:400] or None
