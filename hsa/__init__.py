"""hsa: handshakes of agent protocols (MCP, A2A, ACP) measured from packet captures.

`analyze(paths)` gives everything known about the captures, `exchanges(paths)` every HTTP exchange in order,
`frame(paths)` a pandas DataFrame with one row per handshake. The numbers are those of the command line
(`docs/definitions.md`).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hsa.api import analyze, exchanges, frame

if not os.path.isfile(os.path.join(os.path.dirname(__file__), "capture", "__init__.py")):
    # A checkout that lost the links to the rooms: they stand beside this folder.
    __path__.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

__all__ = ["__version__", "analyze", "exchanges", "frame"]


def __dir__() -> list[str]:
    """What `hsa.` can be followed by, also before its first use."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Names are fetched when they are used first, so that `hsa --help` does not wait for numpy."""
    if name in ("analyze", "exchanges", "frame"):
        from hsa import api

        return getattr(api, name)
    if name == "__version__":
        from hsa.analysis.output import VERSION

        return VERSION
    raise AttributeError(f"module 'hsa' has no attribute {name!r}")
