"""The keys of one direction of a TLS connection in the order of their use, and which records are missing under them.

Strategy: records are numbered under each key from 0 on, and the number is part of what a key opens. So a record that
opens says how many before it were not seen, exactly, whatever the hole looked like from below. After a hole the next
numbers are tried; what that may cost is bounded by the bytes that came.

Source: RFC 8446 section 5.3, RFC 5246 section 6.1.
"""

from __future__ import annotations

from hsa.dissectors.tls_records import APPLICATION, Record
from hsa.dissectors.tls_suites import Opener, Opener13, next_secret

TRIES = 512
"""Records that may be missing in a hole: so many sequence numbers are tried."""
FREE_TRIES = 8 * TRIES
BYTES_A_TRY = 8
"""Tries that a direction has at once, and bytes of records that give it one more: with wrong secrets every record would
else cost as much as a thousand."""


class Keys:
    """Keys of one direction."""

    __slots__ = ("_at", "_begun", "_next", "_row", "_tried", "_weighed", "missed", "moved", "unsure")

    def __init__(self) -> None:
        self._row: list[Opener] = []
        self._at = 0
        self._next = 0
        """Number of the record after the last one opened, under the key in use."""
        self._tried = self._weighed = 0
        self.unsure = False
        """Records may be missing before the next."""
        self.missed = 0
        """Records missing under its key before the last that was opened."""
        self.moved = False
        """That key is another than before, and how many records are missing under the one before is not known."""
        self._begun = False

    def __bool__(self) -> bool:
        return bool(self._row)

    @property
    def final(self) -> bool:
        """The key in use is that of application data, as far as it is known."""
        return bool(self._row) and self._at == len(self._row) - 1

    @property
    def begun(self) -> bool:
        """What comes is application data: the handshake is over, or such data was opened."""
        return self._begun and self.final

    def put(self, row: list[Opener], before: int = 0) -> None:
        """The keys from here on; `before`: records under the first that are no application data (1.2: Finished)."""
        if row != self._row:
            self._row, self._at, self._next, self._begun = row, 0, before, before > 0

    def refuse(self) -> None:
        """The first key is that of early data, which the server does not take."""
        if len(self._row) > 1 and self._at == 0:
            del self._row[0]

    def advance(self) -> None:
        """The handshake is over in this direction."""
        if self._row and not self.final:
            self._at, self._next = len(self._row) - 1, 0
        self._begun = True

    def update(self) -> None:
        """A KeyUpdate: the next key follows from this one."""
        opener = self._row[self._at] if self._row else None
        if isinstance(opener, Opener13):
            self._row[self._at] = Opener13(opener.suite, next_secret(opener.secret, opener.suite), opener.padded)
            self._next = 0

    def skip(self) -> None:
        """A record cannot be opened because bytes of it are missing."""
        if self.begun:
            self._row[self._at].sequence += 1
        else:
            self.unsure = True

    def holds(self, size: int) -> int:
        """Bytes in a record whose body has this size; -1 when that cannot be told."""
        return self._row[self._at].holds(size) if self._row else -1

    def open(self, record: Record) -> tuple[int, bytes] | None:
        """(content type, plaintext); None when no key opens it. Sets `missed`."""
        assert record.body is not None
        self._weighed += len(record.body)
        for place in range(self._at, len(self._row)):
            opener = self._row[place]
            found = opener.open(record.kind, record.version, record.body)
            if found is None and self.unsure:
                found = self._searched(opener, record)
            if found is not None:
                self.moved = self.unsure and place != self._at
                self.missed = max(0, opener.sequence - 1 - (self._next if place == self._at else 0))
                self._at, self._next, self.unsure = place, opener.sequence, False
                self._begun = self._begun or found[0] == APPLICATION
                return found
        self.unsure = True
        return None

    def _searched(self, opener: Opener, record: Record) -> tuple[int, bytes] | None:
        """After a hole: the record is one of the next ones."""
        assert record.body is not None
        begin = opener.sequence
        for ahead in range(1, min(TRIES, FREE_TRIES + self._weighed // BYTES_A_TRY - self._tried)):
            self._tried += 1
            opener.sequence = begin + ahead
            found = opener.open(record.kind, record.version, record.body)
            if found is not None:
                return found
        opener.sequence = begin
        return None
