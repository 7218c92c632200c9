"""A capture file while it is recorded: new, whole, and as far as it came when there is no room."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hsa.capture.files import open_traces
from hsa.capture.growing import Growing
from hsa.capture.write import PcapngWriter

FULL = """
import resource, sys
from hsa.capture.growing import Growing
from hsa.capture.write import PcapngWriter
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
file = Growing(sys.argv[1])
writer = PcapngWriter(file.binary)
writer.interface()
try:
    for number in range(100):
        writer.write(number, bytes(300))
        file.flush()
except OSError as error:
    print(number, file.size, error.filename)
for number in range(10):
    writer.write(number, bytes(300))
file.flush()
file.close()
"""


def test_a_full_disk_leaves_whole_blocks(tmp_path: Path) -> None:
    """The limit of the file's size is the disk that is full."""
    place = tmp_path / "t.pcapng"
    done = subprocess.run([sys.executable, "-c", FULL, str(place)], capture_output=True, text=True, check=True)
    number, size, name = done.stdout.split()
    assert name == str(place) and int(size) == place.stat().st_size <= 10_000
    reader = open_traces([place])
    assert sum(len(records) for records in reader) == int(number)
    assert reader.traces[0].cut is None


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    place = tmp_path / "t.pcapng"
    place.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        Growing(place)
    assert place.read_bytes() == b"mine"


def test_what_never_began_leaves_no_file(tmp_path: Path) -> None:
    file = Growing(tmp_path / "t.pcapng")
    PcapngWriter(file.binary)
    file.discard()
    assert list(tmp_path.iterdir()) == []


def test_much_goes_to_the_disk_by_itself(tmp_path: Path) -> None:
    file = Growing(tmp_path / "t")
    for _ in range(3):
        file.write(bytes(400_000))
    assert (tmp_path / "t").stat().st_size == 1_200_000 == file.size
    file.write(b"x")
    assert (tmp_path / "t").stat().st_size == 1_200_000
    file.flush()
    assert (tmp_path / "t").stat().st_size == 1_200_001
    file.close()
