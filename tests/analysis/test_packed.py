"""Records put away come back equal, in any order, also from the temporary file."""

from __future__ import annotations

import io
from array import array
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from hsa.analysis import packed
from hsa.analysis.archive import KINDS, Handshakes
from hsa.analysis.model import Handshake
from hsa.analysis.options import Options
from hsa.analysis.packed import BATCH, BATCHES_UNPACKED, Packed
from hsa.analysis.pipeline import analyze_traces
from tests.made import handshake

PAPER = Path(__file__).parents[2] / "fixtures" / "paper"


@dataclass(slots=True)
class Part:
    name: str


@dataclass(slots=True)
class Record:
    number: int
    parts: list[Part] = field(default_factory=list)


def filled(count: int) -> Packed[Record]:
    records: Packed[Record] = Packed((Record, Part))
    for number in range(count):
        assert records.append(Record(number, [Part(f"part {number}")])) == number
    return records


@pytest.mark.parametrize("count", [0, 1, BATCH - 1, BATCH, BATCH + 1, BATCH * (BATCHES_UNPACKED + 3) + 7])
def test_records_come_back_equal_and_in_order(count: int) -> None:
    records = filled(count)
    assert len(records) == count
    assert list(records) == [Record(n, [Part(f"part {n}")]) for n in range(count)]
    assert [records[n].number for n in reversed(range(count))] == list(reversed(range(count)))


def test_what_exceeds_memory_goes_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "MEMORY_BYTES", 1000)
    records = filled(20 * BATCH)
    assert not isinstance(records._file, io.BytesIO)
    assert [record.number for record in records] == list(range(20 * BATCH))


def test_a_record_is_replaced_wherever_it_lies() -> None:
    records = filled(BATCH + 2)
    for number in (3, BATCH + 1):
        records.replace(number, Record(-number))
        assert records[number] == Record(-number)
    assert records[4].number == 4 and records[BATCH].number == BATCH


def test_records_are_completed_once_however_often_they_are_looked_at() -> None:
    records = filled(BATCH + 1)
    assert records[0].parts == [Part("part 0")]  # looked at before
    records.replace(2, Record(2))
    records.complete_with(lambda number, record: record.parts.append(Part(f"completed {number}")))
    for number in (0, 2, BATCH) * 2:
        assert [p.name for p in records[number].parts if "completed" in p.name] == [f"completed {number}"]


def test_every_member_of_a_handshake_is_put_away() -> None:
    whole = [*analyze_traces([str(PAPER)], Options()).handshakes, handshake(0, bound={"bytes_up": "at_least"})]
    assert any(h.notes for h in whole) and any(len(h.hops) > 1 for h in whole)
    archive: Packed[Handshake] = Packed(KINDS)
    for h in whole:
        archive.append(h)
    assert list(map(asdict, archive)) == list(map(asdict, whole))


def test_handshakes_are_a_sequence_in_their_order() -> None:
    archive: Packed[Handshake] = Packed(KINDS)
    for number in range(5):
        archive.append(handshake(number))
    found = Handshakes(archive, array("q", [4, 2, 0, 1, 3]))
    assert [h.id for h in found] == [4, 2, 0, 1, 3]
    assert [h.id for h in found[1:3]] == [2, 0]
    assert (len(found), found[-1].id) == (5, 3)
    with pytest.raises(IndexError):
        found[5]
