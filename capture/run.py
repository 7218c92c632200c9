"""A command is run, and exactly its traffic recorded, with the TLS secrets that it tells.

Strategy: a tool records all interfaces into a scratch file while the command runs; meanwhile it is noted which
connections are the command's, by the kernel's marks where we may set them (`marks`), else by looking at its sockets
(`sockets`). A network namespace of its own would keep the command's traffic apart too, but puts a translated hop, other
addresses and other segments into what is to be measured, and takes the host's loopback servers away. When the command
has ended, its packets are taken out of the scratch file, behind a block with the secrets, which readers that go through
a file once need before the packets.

The secrets come from the command: `SSLKEYLOGFILE` is honoured by OpenSSL as Python and curl use it, by NSS and others;
Node is told by `NODE_OPTIONS`. What the command starts ends with it. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hsa.capture.growing import Growing
from hsa.capture.marks import PREFIX, Marks
from hsa.capture.own_packets import write_own
from hsa.capture.processes import adopt_orphans, descendants, dies_with_parent, end
from hsa.capture.recorder import ANY, Recorder, start
from hsa.capture.recording import Limits, Recorded, Recording
from hsa.capture.sockets import Sockets

GRACE_S = 5.0
"""A command that was asked to end has so long before it is killed."""
_SIGNALS = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD))
_FROM_KERNEL = 0
"""Signals whose code is above this come from the terminal: the command has got them too (sigaction(2))."""


class NotStarted(RuntimeError):
    """The command cannot be started; the message says why, `status` is what a shell gives."""

    def __init__(self, why: str, status: int) -> None:
        super().__init__(why)
        self.status = status


@dataclass(slots=True)
class Ran:
    """What has come of it."""

    status: int
    """Exit status of the command; 128 and the number of the signal that ended it."""
    exact: bool
    """The kernel marked the command's sockets; else they were looked for."""
    packets: int = 0
    connections: int = 0
    """TCP connections of the command."""
    secrets: int = 0
    """TLS connections whose secrets are in the file."""
    dropped: int | None = None
    unseen: int = 0
    """TCP connections whose owner was not seen: they may be the command's, and are not in the file."""
    ended: int = 0
    """Processes that the command left behind."""
    failure: str | None = None
    """Why the recording ended before the command."""


def run(command: Sequence[str], file: Growing, *, exact: bool | None = None) -> Ran:
    """Run `command` and write its traffic to `file`, which is closed.

    `exact`: whether to mark sockets; None: where that is possible. Raises NotStarted; NotPermitted or CannotRecord when
    nothing can record here; OSError when `exact` is asked for and not possible, or the disk is full.
    """
    with _interruptible(), _scratch() as scratch:
        recorder = start([ANY], "tcp or udp")
        try:
            before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
            try:
                return _record(command, file, scratch, recorder, exact, before)
            finally:
                while signal.sigtimedwait(_SIGNALS, 0) is not None:
                    pass  # it was for the command, and all is done
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        except BaseException:
            recorder.kill()
            raise


def _record(
    command: Sequence[str],
    file: Growing,
    scratch: Path,
    recorder: Recorder,
    exact: bool | None,
    mask: set[signal.Signals] | set[int],
) -> Ran:
    """With the signals blocked, so that they wait until they are asked for."""
    raw = Growing(scratch / "raw.pcapng")
    recording = Recording(recorder, [ANY], raw, Limits())
    recorded: list[Recorded] = []
    thread = threading.Thread(target=lambda: recorded.append(recording.run()), daemon=True)
    before = descendants(os.getpid())
    owners = _owners(exact, before)
    try:
        thread.start()
        adopt_orphans()
        keylog = scratch / "keys.log"
        process = _started(command, owners, keylog, mask)
        try:
            status = _waited(process)
        finally:
            ended = end(before)
        recording.stop()
        thread.join()
    finally:
        if thread.is_alive():
            recorder.stop()
            thread.join()
        owners.close()
    result = recorded[0]
    ran = Ran(status, isinstance(owners, Marks), dropped=result.dropped, ended=ended, failure=result.failure)
    if owners.lost:
        ran.failure = ran.failure or f"{owners.lost} packets of the command were not noted"
    secrets = _secrets(keylog)
    ran.secrets = len(set(re.findall(rb"^[A-Z_0-9]+ ([0-9a-fA-F]{64}) ", secrets, re.MULTILINE)))
    written = write_own(Path(raw.path), owners, secrets, ran.dropped, file)
    ran.packets, ran.connections, ran.unseen = written.packets, written.connections, written.unseen
    return ran


def _owners(exact: bool | None, before: Collection[int]) -> Marks | Sockets:
    if exact is not False:
        try:
            return Marks()
        except OSError:
            if exact:
                raise
    return Sockets(before)


def _started(
    command: Sequence[str], owners: Marks | Sockets, keylog: Path, mask: set[signal.Signals] | set[int]
) -> subprocess.Popen[bytes]:
    environment = dict(os.environ)
    environment["SSLKEYLOGFILE"] = str(keylog)
    node = f'--tls-keylog="{keylog}"' if " " in str(keylog) else f"--tls-keylog={keylog}"
    environment["NODE_OPTIONS"] = f"{environment.get('NODE_OPTIONS', '')} {node}".strip()
    with_parent = dies_with_parent(signal.SIGTERM)

    def prepare() -> None:
        with_parent()
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    try:
        with owners.joined():
            return subprocess.Popen(command, env=environment, preexec_fn=prepare)
    except FileNotFoundError:
        raise NotStarted(f"{command[0]}: not found", 127) from None
    except PermissionError:
        raise NotStarted(f"{command[0]}: not to be executed", 126) from None


def _waited(process: subprocess.Popen[bytes]) -> int:
    """Exit status of the command, as a shell gives it; signals that are meant for it are handed on."""
    limit: float | None = None
    while True:
        status = process.poll()
        if status is not None:
            return status if status >= 0 else 128 - status
        if limit is not None and time.monotonic() > limit:
            process.kill()
        found = signal.sigtimedwait(_SIGNALS, 0.2)
        if found is None or found.si_signo == signal.SIGCHLD:
            continue
        if found.si_code <= _FROM_KERNEL:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(found.si_signo)
        if found.si_signo != signal.SIGINT and limit is None:
            limit = time.monotonic() + GRACE_S


def _secrets(keylog: Path) -> bytes:
    """What the command has told; a log that the user keeps gets it too."""
    secrets = keylog.read_bytes() if keylog.exists() else b""
    if secrets and (theirs := os.environ.get("SSLKEYLOGFILE")):
        with contextlib.suppress(OSError), open(theirs, "ab") as log:
            log.write(secrets)
    return secrets


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """A polite request to end is as good as Ctrl-C while nothing runs yet, or no more."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder of our own that is gone at the end, and those of recordings that were killed."""
    place = Path(tempfile.gettempdir())
    for old in place.glob(f"{PREFIX}*"):
        found = re.fullmatch(re.escape(PREFIX) + r"(\d+)-.*", old.name)
        with contextlib.suppress(OSError):
            if found and old.stat().st_uid == os.getuid() and not os.path.exists(f"/proc/{found.group(1)}"):
                shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
