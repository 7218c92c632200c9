"""What a word of the capture becomes: another of the same length, the same one everywhere, known to the key only.

A word is a run of ASCII letters and digits. Its pseudonym keeps its length, the kind of each character (lower case,
upper case, digit; hexadecimal words stay hexadecimal) and the sum of the bits that its characters take in HPACK's
Huffman code, so that it fits wherever the original stood, in a header block too.

* Words that the tokenizer's table holds as one token become other such words (a keyed ring within the words of equal
  length and code length): text keeps its number of tokens. A word in mixed case made of such words is taken apart.
* Everything else goes through a keyed Feistel network over exactly the strings of its pattern, as often as needed until
  the code length agrees (cycle walking): different words never become the same one.
* Runs longer than `LONG` take characters of equal kind and code length from a keyed stream.

Source: Black and Rogaway, "Ciphers with arbitrary finite domains" (2002); RFC 7541 appendix B (code lengths).
"""

from __future__ import annotations

import hashlib
import re
import string
from functools import cache

import numpy as np
from hpack.huffman_constants import REQUEST_CODES_LENGTH

from hsa.analysis.scrub.vocabulary import MEANINGFUL

LONG = 40
"""Characters of a word up to which the network is used: its arithmetic grows with the square of the length."""
ROUNDS = 6
CACHED = 65_536
"""Words whose pseudonyms are remembered."""
SHORTEST_WORD = 3
"""Characters of words taken from the table; shorter ones are too few to choose from."""

BITS = bytes(REQUEST_CODES_LENGTH[i] for i in range(256))
"""Bits of each character in HPACK's Huffman code."""
_LOWER, _UPPER, _DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
_HEX = re.compile(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{4,}\Z|(?=[0-9]*[A-F])(?=[A-F]*[0-9])[0-9A-F]{4,}\Z")
_CAMEL = re.compile(r"[A-Z]?[a-z]+")


class Pseudonyms:
    """The pseudonyms under one key."""

    def __init__(self, key: bytes) -> None:
        self.key = hashlib.blake2b(key, digest_size=32, person=b"hsa scrub").digest()
        self.made: set[str] = set()
        """Originals replaced that no table of words holds: none of them may be left in the output."""
        self._cache: dict[str, str] = {}
        self._rings: dict[str, str] | None = None

    def word(self, text: str) -> str:
        """The pseudonym of a run of ASCII letters and digits."""
        found = self._cache.get(text)
        if found is None:
            if len(self._cache) >= CACHED:
                self._cache.clear()
            found = self._cache[text] = self._make(text)
        return found

    def hexadecimal(self, text: str) -> str:
        """The pseudonym of hexadecimal digits in one case, also where they are all letters."""
        letters = "ABCDEF" if any(c in "ABCDEF" for c in text) else "abcdef"
        self._note(text)
        return self._walk(text, [letters if c.isalpha() else _DIGITS for c in text], "hex")

    def noise(self, data: bytes, purpose: bytes = b"") -> bytes:
        """As many bytes that look random; the same for the same data."""
        seed = hashlib.blake2b(data, key=self.key, digest_size=16, person=b"noise").digest() + purpose
        return hashlib.shake_256(seed).digest(len(data))

    def number(self, below: int, *what: bytes) -> int:
        """A number that depends on the key and on what is given."""
        return int.from_bytes(hashlib.blake2b(b"\0".join(what), key=self.key, digest_size=16).digest(), "big") % below

    # ------------------------------------------------------------------ kinds of words

    def _make(self, text: str) -> str:
        if len(text) >= SHORTEST_WORD and text.isalpha():
            ring = self._words()
            lower = text.lower()
            if text == lower and lower in ring:
                return ring[lower]
            if text[1:].islower() and lower in ring:
                return ring[lower].capitalize()
            parts = _CAMEL.findall(text)
            if len(parts) > 1 and "".join(parts) == text and all(p.lower() in ring for p in parts):
                return "".join(ring[p] if p.islower() else ring[p.lower()].capitalize() for p in parts)
        self._note(text)
        if len(text) > LONG:
            return self._long(text)
        if _HEX.match(text):
            letters = "abcdef" if text.islower() else "ABCDEF"
            return self._walk(text, [letters if c.isalpha() else _DIGITS for c in text], "hex")
        kinds = [_LOWER if "a" <= c <= "z" else _UPPER if "A" <= c <= "Z" else _DIGITS for c in text]
        if text.isdigit() and len(text) > 1 and text[0] != "0":
            kinds[0] = "123456789"
        return self._walk(text, kinds, "word")

    def _note(self, text: str) -> None:
        if len(text) >= 8:
            self.made.add(text)

    def _walk(self, text: str, alphabets: list[str], purpose: str) -> str:
        """Permute the strings over these alphabets until the code length is that of `text` again."""
        wanted = sum(BITS[ord(c)] for c in text)
        now = text
        for _ in range(4096):
            now = self._permuted(now, alphabets, purpose)
            if sum(BITS[ord(c)] for c in now) == wanted and not self._avoided(now):
                return now
        return self._long(text)

    def _avoided(self, text: str) -> bool:
        lower = text.lower()
        return len(text) > 2 and (lower in MEANINGFUL or (text.isalpha() and lower in self._words()))

    def _permuted(self, text: str, alphabets: list[str], purpose: str) -> str:
        half = len(text) // 2
        sizes = [len(a) for a in alphabets]
        tweak = f"{purpose} {sizes}".encode()
        left, left_size = _number(text[:half], alphabets[:half])
        right, right_size = _number(text[half:], alphabets[half:])
        for turn in range(ROUNDS):
            if turn % 2 == 0:
                right = (right + self._prf(tweak, turn, left)) % right_size
            elif half:
                left = (left + self._prf(tweak, turn, right)) % left_size
        return _string(left, alphabets[:half]) + _string(right, alphabets[half:])

    def _prf(self, tweak: bytes, turn: int, value: int) -> int:
        given = tweak + bytes([turn]) + value.to_bytes(40, "big")
        return int.from_bytes(hashlib.blake2b(given, key=self.key, digest_size=64).digest(), "big")

    def _long(self, text: str) -> str:
        return self.letterwise(text.encode("ascii")).decode("ascii")

    def letterwise(self, raw: bytes) -> bytes:
        """Every letter, digit and byte beyond ASCII replaced by one of its kind with a code of equal length."""
        seed = hashlib.blake2b(raw, key=self.key, digest_size=16, person=b"long").digest()
        stream = np.frombuffer(hashlib.shake_256(seed).digest(2 * len(raw)), np.uint16)
        data = np.frombuffer(raw, np.uint8)
        out = data.copy()
        for alphabet in _classes():
            at = np.flatnonzero(np.isin(data, alphabet))
            out[at] = alphabet[stream[at] % len(alphabet)]
        return out.tobytes()

    def _words(self) -> dict[str, str]:
        if self._rings is None:
            rings: dict[tuple[int, int, int], list[str]] = {}
            for word in common_words():
                bits = sum(BITS[ord(c)] for c in word)
                capital = bits - BITS[ord(word[0])] + BITS[ord(word[0].upper())]
                rings.setdefault((len(word), bits, capital), []).append(word)
            self._rings = {}
            for words in rings.values():
                if len(words) < 2:
                    continue
                ring = sorted(words, key=lambda w: hashlib.blake2b(w.encode(), key=self.key, digest_size=16).digest())
                self._rings.update(zip(ring, ring[1:] + ring[:1], strict=True))
        return self._rings


@cache
def common_words() -> tuple[str, ...]:
    """Lower-case words that are one token of `o200k_base` with and without a space ahead, and capitalised after one."""
    from hsa.analysis.tokens import words_of_one_token

    return tuple(w for w in words_of_one_token() if len(w) >= SHORTEST_WORD and w not in MEANINGFUL)


@cache
def _classes() -> tuple[np.ndarray[tuple[int], np.dtype[np.uint8]], ...]:
    """Characters of equal kind and code length."""
    found: dict[tuple[int, int], list[int]] = {}
    for kind, alphabet in enumerate((_LOWER, _UPPER, _DIGITS)):
        for c in alphabet:
            found.setdefault((kind, BITS[ord(c)]), []).append(ord(c))
    for byte in range(0x80, 0x100):
        found.setdefault((3, BITS[byte]), []).append(byte)
    return tuple(np.array(v, np.uint8) for v in found.values())


def _number(text: str, alphabets: list[str]) -> tuple[int, int]:
    """(position of `text` among the strings over these alphabets, their number)."""
    value, size = 0, 1
    for c, alphabet in zip(text, alphabets, strict=True):
        at = alphabet.find(c)
        value = value * len(alphabet) + max(at, 0)
        size *= len(alphabet)
    return value, size


def _string(value: int, alphabets: list[str]) -> str:
    out = []
    for alphabet in reversed(alphabets):
        value, at = divmod(value, len(alphabet))
        out.append(alphabet[at])
    return "".join(reversed(out))
