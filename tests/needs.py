"""What a test needs from the machine: on a user's machine its absence skips the test and says why, in CI it fails."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def need(present: bool, what: str) -> None:
    """Go on only with `what`."""
    if present:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI must have {what}")
    pytest.skip(f"needs {what}")


def need_tool(tool: str, package: str) -> None:
    """Go on only with a program; where root, its Debian package is installed if it is absent."""
    if shutil.which(tool) is None and os.geteuid() == 0 and shutil.which("apt-get"):
        for command in (["apt-get", "update", "-q"], ["apt-get", "install", "-q", "-y", package]):
            environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
            subprocess.run(command, env=environment, capture_output=True, check=False, timeout=240)
    need(shutil.which(tool) is not None, f"{tool} (Debian package {package})")
