"""Options: defaults of the contract, shapes that a caller may give, values that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hsa.analysis.options import Options


def test_defaults() -> None:
    options = Options()
    assert (options.idle_s, options.price, options.context, options.tokenizer, options.hops) == (
        30,
        3.0,
        200_000,
        "o200k_base",
        "merged",
    )


def test_shapes() -> None:
    options = Options.of({"port": 80, "host": "a", "require": ["x", "y"]})
    assert (options.port, options.host, options.require) == ((80,), ("a",), ("x", "y"))
    assert Options.of({"port": [80, 81], "host": None}).port == (80, 81)


@pytest.mark.parametrize(
    "values",
    [{"port": 0}, {"port": 70_000}, {"hops": "some"}, {"tokenizer": "gpt2"}, {"idle_s": 0}, {"idle_s": float("nan")},
     {"price": -1}, {"price": float("inf")}, {"context": 0}, {"reorder_window_ns": -1}, {"since_ns": 2, "until_ns": 1}],
)  # fmt: skip
def test_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Options.of(values)


def test_unknown_names_are_an_error() -> None:
    with pytest.raises(TypeError, match="port is 'http'; it must be a whole number"):
        Options.of({"port": "http"})
    with pytest.raises(TypeError, match="idle_s is None; it must be a number"):
        Options.of({"idle_s": None})
    assert Options.of({"keylog": Path("a.keys"), "port": 80}).keylog == "a.keys"
    with pytest.raises(TypeError, match="'prot'"):
        Options.of({"prot": 1})
