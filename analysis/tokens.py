"""Tokens of capability metadata: how much of a model's context a counterpart's self-description takes.

A tokenizer is a table of byte strings and a pattern that cuts text into pieces. The tables of `o200k_base` and
`cl100k_base` are part of the package (`data/*.tiktoken.xz`), so that nothing is ever downloaded; their SHA-256 is
checked when they are loaded. Loading takes a few tenths of a second and happens at the first text counted, never
before. Text that looks like a special token (`<|endoftext|>`) is counted as the plain text it is.

Documents come from a capture, so they may be hostile. Counting is linear in their length but for one thing: the
pattern's engine gives up on white space that goes on for hundreds of thousands of characters, so longer runs than
`RUN_LIMIT` are cut, which changes the count by at most one for each cut. Documents over `DOCUMENT_LIMIT` are unknown.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from hsa.analysis.capabilities import contents
from hsa.analysis.model import Capability, Metadata
from hsa.analysis.options import Options
from hsa.dissectors.reading import Document

if TYPE_CHECKING:
    from tiktoken import Encoding

RUN_LIMIT = 16_384
"""Characters of white space counted in one piece; the pattern's engine overflows somewhere beyond 100,000."""
DOCUMENT_LIMIT = 16 * 2**20
"""Bytes of one document; about three seconds of counting."""
COUNTS_KEPT = 8_192
"""Documents whose count is remembered; equal ones are not counted again."""

DOCUMENTS_KEPT = 256
"""Documents whose capabilities are remembered, and sets of capabilities that handshakes share."""
CAPABILITIES_KEPT = 1_000
"""Capabilities of one handshake that are listed by name; all are counted."""

O200K_PATTERN = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
CL100K_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
    r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)


class Table(NamedTuple):
    """What defines a tokenizer: where its table comes from, the digest of the table, the pattern."""

    url: str
    sha256: str
    pattern: str


TABLES = {
    "o200k_base": Table(
        "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken",
        "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        O200K_PATTERN,
    ),
    "cl100k_base": Table(
        "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken",
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        CL100K_PATTERN,
    ),
}
"""The definitions are facts published with tiktoken (MIT); a test compares them with the installed tiktoken."""

K = TypeVar("K")
V = TypeVar("V")

LONG_RUN = re.compile(rf"(?<!\s)\s{{{RUN_LIMIT + 1},}}")


class DocumentFacts(NamedTuple):
    """What one document costs."""

    tokens: int | None
    capabilities: tuple[Capability, ...] | None
    instructions_tokens: int | None


class TableMissing(ValueError):
    """The table of this tokenizer is not on this machine, or is not what it should be. The message says what to do."""


class Tokenizer:
    """Counts tokens; remembers the counts of the documents seen last.

    `name` is `o200k_base`, `cl100k_base` or `none` (which counts nothing). `tables` is a folder to look in for tables
    that hsa does not ship, under the name `<name>.tiktoken` or the name that tiktoken's own cache gives them.
    Raises `ValueError` for another name, and `TableMissing` when there is no such table (both at once, before any
    capture is read).
    """

    def __init__(self, name: str = "o200k_base", tables: str | Path | None = None) -> None:
        if name not in TABLES and name != "none":
            raise ValueError(f"tokenizer is {name!r}; it can be {', '.join(TABLES)} or none")
        self.name: str | None = name if name != "none" else None
        """Name for the output; None when nothing is counted."""
        self._file = None if name == "none" else _table_file(name, tables)
        self._encoding: Encoding | None = None
        self._counts: OrderedDict[bytes, int | None] = OrderedDict()
        self._documents: OrderedDict[tuple[str, bytes], DocumentFacts] = OrderedDict()
        self._shared: OrderedDict[bytes, tuple[tuple[str, ...], tuple[Capability, ...]]] = OrderedDict()

    def count(self, text: bytes) -> int | None:
        """Tokens of `text` (UTF-8; bytes that are not are replaced). None when unknown: tokenizer `none`, or a text
        over `DOCUMENT_LIMIT`. Never raises because of the text."""
        if self.name is None or len(text) > DOCUMENT_LIMIT:
            return None
        if not text:
            return 0
        digest = _digest(text)
        if digest not in self._counts:
            _keep(self._counts, digest, self._count(text), COUNTS_KEPT)
        return self._counts[digest]

    def facts(self, document: Document) -> DocumentFacts:
        """Tokens of a document, of each capability in it and of its instructions; looked up when it was seen lately."""
        key = (document.kind, _digest(document.data))
        if key not in self._documents:
            listed, instructions = contents(document) if len(document.data) <= DOCUMENT_LIMIT else (None, None)
            facts = DocumentFacts(
                self.count(document.data),
                None if listed is None else tuple(Capability(n, len(t), self.count(t)) for n, t in listed),
                None if instructions is None else self.count(instructions.encode("utf-8", "replace")),
            )
            _keep(self._documents, key, facts, DOCUMENTS_KEPT)
        return self._documents[key]

    def share(self, found: Sequence[Capability]) -> tuple[tuple[str, ...], tuple[Capability, ...]]:
        """Names in order and capabilities by size; handshakes with equal capabilities get the same objects."""
        kept = found[:CAPABILITIES_KEPT]
        key = _digest(repr([(c.name, c.bytes, c.tokens) for c in kept]).encode("utf-8", "replace"))
        if key not in self._shared:
            ranked = sorted(kept, key=lambda c: (-(c.tokens or 0), -c.bytes, c.name))
            _keep(self._shared, key, (tuple(c.name for c in kept), tuple(ranked)), DOCUMENTS_KEPT)
        return self._shared[key]

    def _count(self, text: bytes) -> int | None:
        if self._encoding is None:
            assert self.name is not None and self._file is not None
            self._encoding = _load(self.name, self._file)
        try:
            return sum(len(self._encoding.encode_ordinary(part)) for part in pieces(text.decode("utf-8", "replace")))
        except BaseException as error:
            # The compiled tokenizer reports its own faults as a BaseException of this name.
            if type(error).__name__ != "PanicException":
                raise
            return None


def metadata(documents: Sequence[Document] | None, options: Options, tokenizer: Tokenizer) -> Metadata:
    """What an LLM-driven client would ingest of `documents`, in order of arrival.

    None means that it is unknown (not captured, not decodable): everything is unknown then. No documents are 0 bytes.
    Tokens are counted per document and added; one unknown count makes the sum unknown. Capabilities are united by name
    over documents (an extended card repeats the public one); they are None when no document lists any.
    """
    if documents is None:
        return Metadata()
    facts = [tokenizer.facts(document) for document in documents]
    tokens = _sum([f.tokens for f in facts]) if tokenizer.name is not None else None
    united: dict[tuple[str, int], Capability] = {}
    for f in facts:
        nth: dict[str, int] = {}
        for capability in f.capabilities or ():
            nth[capability.name] = nth.get(capability.name, 0) + 1
            united[capability.name, nth[capability.name]] = capability
    names, ranked = tokenizer.share(list(united.values()))
    instructions = [f.instructions_tokens for f in facts if f.instructions_tokens is not None]
    return Metadata(
        bytes=sum(len(document.data) for document in documents),
        tokens=tokens,
        tokenizer=tokenizer.name,
        context_share=None if tokens is None else tokens / options.context,
        usd_per_million=None if tokens is None else tokens * options.price,
        capabilities=len(united) if any(f.capabilities is not None for f in facts) else None,
        names=names,
        per_capability=ranked,
        instructions_tokens=sum(instructions) if instructions else None,
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def _keep(cache: OrderedDict[K, V], key: K, value: V, limit: int) -> None:
    cache[key] = value
    if len(cache) > limit:
        cache.popitem(last=False)


def pieces(text: str) -> list[str]:
    """`text` cut so that no piece has white space longer than `RUN_LIMIT` characters; joined they are `text` again."""
    if len(text) <= RUN_LIMIT:
        return [text]
    cuts = [0]
    for run in LONG_RUN.finditer(text):
        cuts.extend(range(run.start() + RUN_LIMIT, run.end(), RUN_LIMIT))
    cuts.append(len(text))
    return [text[a:b] for a, b in pairwise(cuts)]


def _table_file(name: str, tables: str | Path | None) -> Path:
    packaged = Path(__file__).with_name("data") / f"{name}.tiktoken.xz"
    if packaged.is_file():
        return packaged
    cached = hashlib.sha1(TABLES[name].url.encode(), usedforsecurity=False).hexdigest()
    if tables is not None:
        for candidate in (Path(tables) / f"{name}.tiktoken", Path(tables) / cached):
            if candidate.is_file():
                return candidate
    raise TableMissing(
        f"tokenizer {name} needs its table, which hsa neither ships nor downloads: put {name}.tiktoken"
        f" (from {TABLES[name].url}) into the folder named by TIKTOKEN_CACHE_DIR, or use --tokenizer o200k_base"
    )


@lru_cache(maxsize=2)
def _load(name: str, file: Path) -> Encoding:
    import lzma
    from binascii import a2b_base64

    from tiktoken import Encoding

    table = TABLES[name]
    data = lzma.decompress(file.read_bytes()) if file.suffix == ".xz" else file.read_bytes()
    if hashlib.sha256(data).hexdigest() != table.sha256:
        raise TableMissing(f"{file} is not the table of {name}: its SHA-256 is not {table.sha256}")
    # Each line is a token in base64, a space and its rank; the digest vouches for the format.
    fields = data.split()
    ranks = dict(zip(map(a2b_base64, fields[::2]), map(int, fields[1::2]), strict=True))
    return Encoding(name, pat_str=table.pattern, mergeable_ranks=ranks, special_tokens={})


def words_of_one_token() -> list[str]:
    """Lower-case words that are one token of `o200k_base` alone, behind a space, and with a capital behind one."""
    whole = set(_load("o200k_base", _table_file("o200k_base", None)).token_byte_values())
    return sorted(
        word.decode("ascii")
        for word in whole
        if word.isalpha() and word.islower() and {b" " + word, b" " + word.capitalize()} <= whole
    )
