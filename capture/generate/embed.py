"""A capture with its TLS secrets inside, so that whoever reads it needs nothing else."""

from __future__ import annotations

from pathlib import Path

from hsa.capture.files import open_traces
from hsa.capture.write import PcapngWriter


def embed(capture: Path, key_log: bytes, file: Path) -> None:
    """Write the packets of `capture` into a new pcapng file, after the secrets of a key log.

    Raises FileExistsError when the file exists, ValueError when the capture cannot be read.
    """
    reader = open_traces([capture])
    if reader.errors:
        raise ValueError(reader.errors[0][1])
    with PcapngWriter(file) as writer:
        writer.secrets(key_log)
        described = False
        for records in reader:
            if not described:
                writer.interface(int(records.link_type[0]))
                described = True
            for t_ns, offset, captured, original in zip(
                records.t_ns.tolist(),
                records.offset.tolist(),
                records.captured.tolist(),
                records.original.tolist(),
                strict=True,
            ):
                writer.write(t_ns, records.data[offset : offset + captured], original)
