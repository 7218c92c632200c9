"""The library: what scripts and notebooks call.

Every text in the results has passed the redaction door (`hsa.analysis.redact`): secrets are a type and a short keyed
hash, control characters are visible escapes. Give `key` (bytes) to get the same hashes in several runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from hsa.analysis.model import Analysis, Exchange
from hsa.analysis.options import Options
from hsa.analysis.redact import Door

if TYPE_CHECKING:
    from pandas import DataFrame

Paths: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"


def analyze(paths: Paths, *, key: bytes | None = None, **options: Any) -> Analysis:
    """Everything known about the captures: handshakes, groups, connections, damage.

    `paths` is one path or several (files, folders); `options` are the members of `hsa.analysis.options.Options`, such
    as `port=9300`, `tokenizer="none"`. Raises `FileNotFoundError` or `NotACapture` when none of the paths can be read
    as a capture; files that cannot be read beside others that can are listed in `errors`. Raises `ValueError` or
    `TypeError` for wrong options. Nothing raises because of what a capture contains.
    """
    from hsa.analysis.pipeline import analyze_traces

    names = _names(paths)
    analysis = analyze_traces(names, Options.of(options))
    _readable(names, analysis)
    analysis.handshakes = list(analysis.handshakes)
    for trace in analysis.traces:
        trace.secrets = []
    cleaned: Analysis = _door(key).record(analysis)
    return cleaned


def exchanges(paths: Paths, *, key: bytes | None = None, **options: Any) -> Iterator[Exchange]:
    """Every HTTP exchange of the captures, agent traffic or not, in order of request start.

    Inputs as for `analyze`. Frames are frame keys (`hsa.capture.records.frame_of` takes them apart).
    """
    from hsa.analysis.exchange_log import public
    from hsa.analysis.pipeline import iter_exchanges

    door = _door(key)
    for exchange in iter_exchanges(_names(paths), Options.of(options)):
        yield door.record(public(exchange))


def frame(paths: Paths, *, key: bytes | None = None, **options: Any) -> DataFrame:
    """A pandas DataFrame with one row per handshake (and warm contact), in order of start.

    Columns and units are those of `hsa.columns.COLUMNS`, also listed in `docs/output.md`. Inputs as for `analyze`.
    Raises `ImportError` when pandas is not installed (`pip install 'hsa[plots]'`).
    """
    from hsa.columns import data_frame, need_pandas

    need_pandas()
    return data_frame(analyze(paths, key=key, **options))


def _names(paths: Paths) -> list[str]:
    if isinstance(paths, (str, os.PathLike)):
        return [os.fspath(paths)]
    return [os.fspath(path) for path in paths]


def _readable(names: list[str], analysis: Analysis) -> None:
    from hsa.capture.records import NotACapture

    if analysis.traces or not analysis.errors:
        return
    missing = [name for name in names if name != "-" and not os.path.exists(name)]
    reasons = "; ".join(f"{file}: {reason}" for file, reason in analysis.errors)
    raise FileNotFoundError(reasons) if missing else NotACapture(reasons)


def _door(key: bytes | None) -> Door:
    return Door(os.urandom(16) if key is None else key)
