"""Between an MCP client and a server that it starts: bytes pass unchanged, and are recorded with their times.

There are no packets on pipes, so the recording is a conversation made for them (`conversation`): what the client writes
to the server's standard input and what comes out of its standard output are the two directions of one TCP connection on
loopback, which begins when the server is started. Everything that reads captures reads it, Wireshark too. The server's
port is a number made from its command, the same each time, so that several recordings of one server go together. The
standard error stream is the client's to read and is not touched.

The recording never comes before the conversation: when it fails, bytes still pass.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hsa.capture.conversation import LINK_TYPE, Conversation
from hsa.capture.growing import Growing
from hsa.capture.processes import dies_with_parent
from hsa.capture.write import PcapngWriter

PIECE_BYTES = 65_536
END_S = 5.0
"""After the server has ended, what it said last comes within this time, or a child of its holds the pipe."""
_HOST = "127.0.0.1"


class NotStarted(RuntimeError):
    """The server cannot be started; the message says why, `status` is what a shell gives."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


@dataclass(slots=True)
class Passed:
    """What has come of it."""

    status: int = 0
    """Exit status of the server; 128 and the number of the signal that ended it."""
    bytes_up: int = 0
    bytes_down: int = 0
    failure: str | None = None
    """Why the recording ended before the conversation."""


class _Recording:
    """Both directions, whose threads take turns; on the disk after each piece, for a client may kill us at any time."""

    def __init__(self, file: Growing, command: Sequence[str]) -> None:
        self.failure: str | None = None
        self._file = file
        self._writer = PcapngWriter(file.binary, comment="recorded by hsa capture stdio")
        self._writer.interface(LINK_TYPE, name="stdio")
        self._lock = threading.Lock()
        port = 49_152 + zlib.crc32("\0".join(command).encode(errors="surrogateescape")) % 16_384
        client = 1024 + os.getpid() % 48_000
        self._conversation = Conversation((_HOST, client), (_HOST, port), self._writer.write, start=time.time_ns())

    def note(self, write: Callable[[Conversation, int], None]) -> None:
        """Record something that happens now."""
        with self._lock:
            if self.failure is not None:
                return
            try:
                write(self._conversation, time.time_ns())
                self._file.flush()
            except OSError as error:
                self.failure = error.strerror or str(error)

    def close(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._file.close()


def stand_between(command: Sequence[str], file: Growing, *, client_in: int = 0, client_out: int = 1) -> Passed:
    """Start a stdio server and pass everything between it and us, the client's standard streams; `file` is closed at
    the end.

    `client_in`, `client_out`: where the client writes and reads. SIGINT, SIGTERM and SIGHUP go to the server. Raises
    NotStarted.
    """
    try:
        server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            preexec_fn=dies_with_parent(signal.SIGTERM),
        )
    except FileNotFoundError:
        raise NotStarted(f"{command[0]}: not found", 127) from None
    except PermissionError:
        raise NotStarted(f"{command[0]}: not to be executed", 126) from None
    assert server.stdin is not None and server.stdout is not None
    passed = Passed()
    recording = _Recording(file, command)
    recording.note(lambda talk, now: talk.open(now, now, now))

    def up() -> None:
        assert server.stdin is not None
        passed.bytes_up = _pass(client_in, server.stdin.fileno(), 0, recording)
        with contextlib.suppress(OSError):
            server.stdin.close()

    def down() -> None:
        assert server.stdout is not None
        passed.bytes_down = _pass(server.stdout.fileno(), client_out, 1, recording)

    with _handed_on(server):
        # The client may keep its end open for ever: nobody waits for what it still says.
        threading.Thread(target=up, daemon=True).start()
        answers = threading.Thread(target=down, daemon=True)
        answers.start()
        status = server.wait()
        answers.join(END_S)
    recording.close()
    passed.status = status if status >= 0 else 128 - status
    passed.failure = recording.failure
    return passed


def _pass(source: int, sink: int, side: int, recording: _Recording) -> int:
    """Pass bytes on until there are no more, or nobody takes them; gives their number."""
    count = 0
    while True:
        try:
            data = os.read(source, PIECE_BYTES)
        except OSError:
            data = b""
        if not data:
            recording.note(lambda talk, now: talk.fin(now, side))
            return count
        count += len(data)
        recording.note(lambda talk, now, data=data: talk.data(now, side, data))  # type: ignore[misc]
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(sink, view) :]
            except OSError:  # the reader is gone
                recording.note(lambda talk, now: talk.reset(now, 1 - side))
                return count


@contextlib.contextmanager
def _handed_on(server: subprocess.Popen[bytes]) -> Iterator[None]:
    """Signals that ask us to end go to the server; we end when it does."""

    def hand_on(number: int, frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            server.send_signal(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, hand_on) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
