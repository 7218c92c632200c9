"""What all figures share: their style, a canvas without a screen, and equal files for equal input.

Colours are Okabe and Ito's, which the colour-blind tell apart and which differ in grey.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

FORMS = ("svg", "pdf", "png")
PHASES = {"discovery": "#56B4E9", "capability": "#E69F00", "session": "#0072B2", "readiness": "#CC79A7"}
OTHER = "#BBBBBB"
EDGE: dict[str, Any] = {"edgecolor": "black", "linewidth": 0.4}
STYLE: Any = {
    "svg.hashsalt": "hsa",
    "svg.fonttype": "path",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 100,
    "text.parse_math": False,
}


@contextmanager
def style() -> Iterator[None]:
    """Figures made and saved in this block look alike."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        yield


def canvas(columns: int = 1, width: float = 6.4, height: float = 3.2) -> tuple[Any, Any]:
    """A figure and its axes, side by side; inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def saved(figure: Any, form: str) -> bytes:
    """The figure in one of `FORMS`; equal figures give equal bytes."""
    buffer = io.BytesIO()
    metadata = {
        "svg": {"Date": None, "Creator": None},
        "pdf": {"CreationDate": None},
        "png": {"Software": None},
    }[form]
    transparent = form == "svg"
    figure.savefig(buffer, format=form, bbox_inches="tight", metadata=metadata, transparent=transparent, dpi=150)
    return buffer.getvalue()


def legend(figure: Any, colors: Sequence[tuple[str, str]], columns: int) -> None:
    """Names of colours below the figure."""
    from matplotlib.patches import Patch

    handles = [Patch(facecolor=color, **EDGE) for _, color in colors]
    names = [name for name, _ in colors]
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0)}
    figure.legend(handles, names, ncols=columns, fontsize=8, frameon=False, **place)


def plain(text: str, most: int = 60) -> str:
    """Text that every font can draw, of at most so many characters."""
    shown = text.encode("ascii", "backslashreplace").decode()
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."
