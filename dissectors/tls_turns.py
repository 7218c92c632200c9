"""How many request/response exchanges went through TLS that nobody could open: from sizes and directions of records.

Strategy: a client that has an answer and speaks again has begun another exchange. So what is counted is how often the
direction turns, with the records left out that are no part of an exchange: session tickets, alerts, KeyUpdates, and
the frames by which HTTP/2 runs a connection, whose sizes are known to the byte. That is the low estimate: exchanges
side by side, whose requests go out in one breath, are one turn to it. For the high one every record of such a breath
may be a request, or what fits into it, unless the answers are too few or too small; what HTTP/2 left unanswered at the
end counts only there. Which protocol speaks is told by ALPN; where the choice is hidden (TLS 1.3) and several were
offered, by whether the client acknowledged SETTINGS.

Both are counters; nothing is kept of a record. A protocol that nobody offered counts as HTTP/1.1. Messages of a
WebSocket are turns too, and requests pipelined in HTTP/1.1 are one.

Sources: RFC 9113 sections 3.4, 4.1 and 6 (sizes of frames), RFC 8446 sections 4.6 and 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsa.dissectors.contract import C2S, Direction

ALERT, KEY_UPDATE = 2, 5
"""Content of a record with one of these (TLS 1.3 hides which it is)."""
ACKNOWLEDGEMENT, WINDOW_UPDATE, PING = 9, 13, 17
"""Sizes of frames: SETTINGS without settings (also an empty DATA), WINDOW_UPDATE and RST_STREAM, PING and GOAWAY."""
CONTROL = frozenset((ALERT, KEY_UPDATE, ACKNOWLEDGEMENT, WINDOW_UPDATE, PING))
TWO_CONTROLS = frozenset((18, 22, 26))
"""Two of them in a record; a request squeezed by HPACK may be of that size too."""
WINDOW_BYTES = 4_096
"""Clients open the window again only after data; so after less than this, a record of that size is a request."""
MAGIC_BYTES = 24
PREFACES = frozenset(MAGIC_BYTES + 9 + 6 * settings + update for settings in range(9) for update in (0, 13)) | {24}
"""Client prefaces with nothing behind them: magic, SETTINGS, perhaps a WINDOW_UPDATE."""
LEAST_PREFACE = MAGIC_BYTES + 9 + 6
SETTINGS_BYTES = 80
"""The server's first frame is SETTINGS, with a WINDOW_UPDATE or acknowledgement at most this long."""
TICKETS = 4
"""Session tickets that a server sends at once, at most."""
TICKET_BYTES = range(120, 2_000)
ALIKE_BYTES = 32
"""Tickets of one connection differ by no more."""
REQUEST_BYTES, ANSWER_BYTES = 25, 100
"""HTTP/2: least that a request costs in a record it shares, and an answer likewise."""
COUNTED = 256
"""Exchanges side by side that are told apart."""
LEAST_REQUEST = 16
"""HTTP/1.1: `GET / HTTP/1.1` and more. Below: an alert, the end of chunks."""
INTERIM = 25
"""`HTTP/1.1 100 Continue`, whole."""


class Turns:
    """Fed the sizes of the application records of one connection, in order."""

    __slots__ = ("_acknowledged", "_http1", "_http2", "extra", "lost")

    def __init__(self) -> None:
        self.extra = 17
        """Bytes of a record's body beside its content."""
        self.lost = False
        """Records are missing: there may have been any number of turns more."""
        self._acknowledged = False
        self._http1 = _Http1Turns()
        self._http2 = _Http2Turns()

    def record(self, direction: Direction, size: int) -> bool:
        """A record whose body has this size. Whether more of this direction, before one of the other, could matter."""
        content = size - self.extra
        if direction is C2S:
            self._acknowledged = self._acknowledged or content == ACKNOWLEDGEMENT
            return bool(self._http1.up(content) | self._http2.up(content))
        return bool(self._http1.down(content) | self._http2.down(content))

    def begin(self, *, tickets: bool) -> None:
        """The beginning of the connection was captured. `tickets`: of TLS 1.3, which come as application data."""
        self._http1.tickets = TICKETS if tickets else 0
        self._http2.begin(TICKETS if tickets else 0)

    def estimate(self, chosen: str | None, offered: Sequence[str]) -> tuple[int, int | None]:
        """(low, high) by the protocol that ALPN chose or the client offered; high is None where records are missing."""
        first, second = self._http1.bounds(), self._http2.bounds()
        if chosen is None and "h2" in offered and self._acknowledged:
            chosen = "h2"
        if chosen is None and len(offered) == 1:
            chosen = offered[0]
        if chosen == "h2":
            low, high = second
        elif chosen is not None or "h2" not in offered:
            low, high = first
        else:
            low, high = min(first[0], second[0]), max(first[1], second[1])
        return low, None if self.lost else max(low, high)


class _Http1Turns:
    """Requests one after the other."""

    __slots__ = ("_answered", "_answered_low", "_high", "_low", "_ticket", "tickets")

    def __init__(self) -> None:
        self.tickets = 0
        """Records from the server that may still be tickets."""
        self._ticket = 0
        """Size of the last one."""
        self._low = self._high = 0
        self._answered = self._answered_low = True

    def up(self, content: int) -> bool:
        if content < LEAST_REQUEST:
            return True
        self._low += self._answered_low
        self._high += self._answered
        self._answered = self._answered_low = False
        return False

    def down(self, content: int) -> bool:
        if content <= KEY_UPDATE or content == INTERIM:
            return True
        self._answered = True
        if self.tickets and content in TICKET_BYTES and abs(content - (self._ticket or content)) <= ALIKE_BYTES:
            self.tickets -= 1
            self._ticket = content
            return True
        self.tickets = 0
        self._answered_low = True
        return False

    def bounds(self) -> tuple[int, int]:
        return self._low, self._high


class _Http2Turns:
    """Requests side by side."""

    __slots__ = (
        *("_answered", "_answers", "_carried", "_down_bytes", "_fits", "_hidden", "_high", "_low", "_opening"),
        *("_perhaps", "_preface", "_records", "_ticket", "_tickets", "_up_bytes"),
    )

    def __init__(self) -> None:
        self._opening = False
        """The server's SETTINGS are still to come."""
        self._low = self._high = self._carried = 0
        self._tickets = self._ticket = 0
        self._preface = False
        """The client has not said anything yet."""
        self._answered = False
        self._hidden = False
        """It looked like a preface alone; one of that size may hold a request."""
        # Of the requests since the last turn and their answers:
        self._perhaps = 0
        """A record after them was a request or opened the window."""
        self._records = self._up_bytes = self._answers = self._fits = self._down_bytes = 0

    def begin(self, tickets: int) -> None:
        """Both directions are at their start."""
        self._opening = self._preface = True
        self._tickets = tickets

    def up(self, content: int) -> bool:
        if content in CONTROL or content <= 0:
            return True
        if content in TWO_CONTROLS and self._down_bytes >= WINDOW_BYTES:
            self._perhaps = 1
            return True
        if self._answered:
            self._turn()
        self._records = min(self._records + 1, COUNTED)
        self._up_bytes += content
        if self._preface:
            self._preface = False
            self._up_bytes = max(0, self._up_bytes - LEAST_PREFACE)
            if content in PREFACES:  # the request comes behind it
                self._records = 0
                self._hidden = content >= LEAST_PREFACE + REQUEST_BYTES
        return self._records < COUNTED

    def down(self, content: int) -> bool:
        if content in CONTROL or content <= 0:
            self._opening = self._opening and content != ACKNOWLEDGEMENT  # of settings, or SETTINGS without any
            return True
        if self._opening:
            if content <= SETTINGS_BYTES:
                self._opening = False
                return True
            if self._tickets and abs(content - (self._ticket or content)) <= ALIKE_BYTES:
                self._tickets -= 1
                self._ticket = content
                return True
            self._opening = False  # they came with something else
        if self._hidden and not self._records:  # there was a request in it
            self._records = 1
        self._hidden = False
        if content in TWO_CONTROLS:
            return True
        self._down_bytes += content
        self._fits = min(self._fits + max(1, content // ANSWER_BYTES), COUNTED)
        self._answers = min(self._answers + 1, COUNTED)
        if self._records and not self._answered:
            self._answered = True
            self._low += 1
        return min(self._fits, self._answers) < COUNTED or self._down_bytes < WINDOW_BYTES

    def _side_by_side(self) -> int:
        """Exchanges since the last turn, at most."""
        asked = max(self._records, min(self._up_bytes // REQUEST_BYTES, self._answers)) + self._carried
        return min(asked, max(1, self._fits)) if self._answered else asked

    def _turn(self) -> None:
        found = self._side_by_side()
        self._high += found + self._perhaps
        self._carried = max(0, min(self._records, self._records + self._carried - found))
        self._records = self._up_bytes = self._answers = self._fits = self._down_bytes = 0
        self._perhaps = 0
        self._answered = False

    def bounds(self) -> tuple[int, int]:
        return self._low, self._high + self._perhaps + (self._side_by_side() if self._records else 0)
