"""How much the contents of messages may hold in memory: one alone, and all that are open at the same time together.

Strategy: a message takes its share as its content comes, and the share goes back when the message is dropped, however
that comes about. What would pass the sum is not kept, and said to be over a limit. Small contents may use the room
that large ones may not: who fills the memory with large ones does not shut out everybody else.
"""

from __future__ import annotations

ONE_BYTES = 64 * 2**20
"""Longest JSON content kept, decoded. Catalogues of hundreds of kilobytes are seen; base64 media reach tens of MB."""
TOGETHER_BYTES = 256 * 2**20
"""All large contents that are held at the same time, with what they are parsed to."""
SMALL_BYTES = 65536
"""Contents up to this length may fill as much again."""
VALUE_BYTES = 64
"""What a parsed value takes beside its text: an empty list is 56 bytes and a place in the one around it."""
TOO_MUCH = "too much content held of all unfinished messages together"
"""Detail of the damage when a share is refused."""


class Budget:
    """What holds for all contents of one run. Sizes in bytes."""

    __slots__ = ("one", "together", "used")

    def __init__(self, one: int = ONE_BYTES, together: int = TOGETHER_BYTES) -> None:
        self.one = one
        self.together = together
        self.used = 0


class Share:
    """What one message holds."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.size = 0

    def take(self, size: int) -> bool:
        """Ask for `size` bytes more; False when they are not to be had."""
        budget = self._budget
        room = budget.together if self.size + size > SMALL_BYTES else 2 * budget.together
        if budget.used + size > room:
            return False
        budget.used += size
        self.size += size
        return True

    def take_json(self, text: bytes) -> bool:
        """Ask for a JSON text and what it is parsed to."""
        return self.take(len(text) + parsed_size(text))

    def join(self, other: Share) -> None:
        """Take over what another message of the same run holds."""
        self.size += other.size
        other.size = 0

    def give(self, size: int) -> None:
        """Give `size` bytes back."""
        self._budget.used -= size
        self.size -= size

    def __del__(self) -> None:
        self._budget.used -= self.size


def parsed_size(text: bytes | bytearray) -> int:
    """Bytes that JSON takes once parsed, beside the text itself, at most about: its strings are the text again, and
    every value stands behind one of four characters."""
    values = text.count(b",") + text.count(b"[") + text.count(b"{") + text.count(b":")
    return len(text) + VALUE_BYTES * values
