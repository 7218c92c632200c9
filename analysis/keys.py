"""The TLS secrets of a run: a key log file, and those that stand in the captures."""

from __future__ import annotations

import os
from collections.abc import Iterator

from hsa.analysis.options import Options
from hsa.capture.files import Reader
from hsa.capture.secrets import secrets_in
from hsa.dissectors.tls_keylog import KeyLog

MAX_FILE_BYTES = 2**30
"""Of a key log file: some four million connections."""


def key_log(options: Options, reader: Reader) -> KeyLog:
    """All secrets known, and the ways to more. Raises OSError when the key log file cannot be read, ValueError when it
    is larger than `MAX_FILE_BYTES`."""
    taken: dict[int, int] = {}

    def more() -> Iterator[bytes]:
        for trace in reader.traces:
            done = taken.get(trace.index, 0)
            taken[trace.index] = len(trace.secrets)
            yield from trace.secrets[done:]

    def ahead() -> Iterator[bytes]:
        for trace in reader.traces:
            if trace.format == "pcapng" and trace.file != "-":
                yield from secrets_in(trace.file)

    logs = []
    if options.keylog is not None:
        if os.path.getsize(options.keylog) > MAX_FILE_BYTES:
            raise ValueError(f"the key log {options.keylog} is larger than {MAX_FILE_BYTES:,} bytes")
        with open(options.keylog, "rb") as file:
            logs.append(file.read())
    return KeyLog(logs, more, ahead)
