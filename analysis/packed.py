"""Many records in little memory: put away in compressed batches, and made anew when they are looked at.

A record of Python objects takes ten times what it says. Here a batch of them is pickled, with the names of classes and
texts once for all, and compressed. What exceeds `MEMORY_BYTES` goes to a temporary file that has no name.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import weakref
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import IO, Any, Generic, TypeVar

T = TypeVar("T")

BATCH = 64
"""Records of one batch."""
BATCHES_UNPACKED = 16
"""Batches of which the records are at hand: they are asked for in about the order in which they were put away."""
MEMORY_BYTES = 64 * 2**20
"""Compressed bytes kept in memory."""


class Packed(Generic[T]):
    """Records by number, in the order in which they were appended. What is done to one that was looked at is lost
    sooner or later; `replace` is for that."""

    def __init__(self, kinds: Iterable[type]) -> None:
        """`kinds`: the dataclasses that records are made of, whose fields are their arguments; everything else in a
        record is of Python's own types."""
        self._complete: Callable[[int, T], None] = lambda number, record: None
        self._reducers: dict[type, Callable[[Any], Any]] = {kind: _reducer(kind) for kind in kinds}
        self._file: IO[bytes] = io.BytesIO()
        self._ends = array("q", [0])
        self._filling: list[T] = []
        self._unpacked: dict[int, list[T]] = {}
        self._replaced: dict[int, T] = {}

    def __len__(self) -> int:
        return (len(self._ends) - 1) * BATCH + len(self._filling)

    def append(self, record: T) -> int:
        """Put a record away. Gives its number."""
        number = len(self)
        self._filling.append(record)
        if len(self._filling) == BATCH:
            self._file.seek(0, io.SEEK_END)
            self._file.write(zlib.compress(self._pickled(self._filling), 1))
            self._ends.append(self._file.tell())
            if self._ends[-1] > MEMORY_BYTES and isinstance(self._file, io.BytesIO):
                self._roll_over(self._file)
            self._filling = []
        return number

    def _roll_over(self, memory: io.BytesIO) -> None:
        """From memory to a file. (Few captures come here, and `tempfile` takes its time to load.)"""
        from tempfile import TemporaryFile

        self._file = TemporaryFile()  # noqa: SIM115 (closed when this is gone)
        weakref.finalize(self, self._file.close)
        self._file.write(memory.getbuffer())

    def replace(self, number: int, record: T) -> None:
        """Put another record in the place of one."""
        self._replaced[number] = record

    def complete_with(self, complete: Callable[[int, T], None]) -> None:
        """From now on give each record, with its number, to `complete` when it is made anew: it adds what was not known
        when the record was put away."""
        self._complete = complete
        self._unpacked.clear()

    def __getitem__(self, number: int) -> T:
        """The record as it was put away."""
        batch, place = divmod(number, BATCH)
        if number in self._replaced:
            return self._made(self._pickled([self._replaced[number]]), number)[0]
        if batch == len(self._ends) - 1:
            return self._made(self._pickled([self._filling[place]]), number)[0]
        return self._batch(batch)[place]

    def __iter__(self) -> Iterator[T]:
        return (self[number] for number in range(len(self)))

    def _batch(self, batch: int) -> list[T]:
        found = self._unpacked.pop(batch, None)
        if found is None:
            start, stop = self._ends[batch], self._ends[batch + 1]
            self._file.seek(start)
            found = self._made(zlib.decompress(self._file.read(stop - start)), batch * BATCH)
            if len(self._unpacked) >= BATCHES_UNPACKED:
                del self._unpacked[next(iter(self._unpacked))]
        self._unpacked[batch] = found
        return found

    def _made(self, pickled: bytes, first: int) -> list[T]:
        records: list[T] = pickle.loads(pickled)
        for number, record in enumerate(records, first):
            self._complete(number, record)
        return records

    def _pickled(self, records: list[T]) -> bytes:
        out = io.BytesIO()
        pickler = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = copyreg.dispatch_table | self._reducers
        pickler.dump(records)
        return out.getvalue()


def _reducer(kind: type) -> Callable[[Any], Any]:
    """How an object of a dataclass is pickled: as its class and the values of its fields."""
    names = [field.name for field in fields(kind)]
    values = attrgetter(*names)
    return lambda record: (kind, values(record) if len(names) > 1 else (values(record),))
