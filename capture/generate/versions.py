"""Which Python and which versions of the SDKs and what carries them are installed here."""

from __future__ import annotations

import platform
from importlib import metadata

from hsa.capture.generate.errand import say

PACKAGES = (
    "mcp",
    "a2a-sdk",
    "acp-sdk",
    "httpx",
    "httpx2",
    "uvicorn",
    "hypercorn",
    "h2",
    "grpcio",
    "starlette",
    "fastapi",
    "h11",
)


def installed() -> dict[str, str]:
    """Name to version of Python and of those of `PACKAGES` that are there."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def major(package: str) -> int:
    """Major version of an installed package; raises PackageNotFoundError without it."""
    return int(metadata.version(package).partition(".")[0])


def main() -> int:
    """Print them as one line of JSON."""
    say(dict(installed()))
    return 0
