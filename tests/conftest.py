"""What holds for all tests: CI has everything they need."""

from __future__ import annotations

import os
import shutil

import pytest


def pytest_sessionstart(session: pytest.Session) -> None:
    """On a user's machine tests without their tool skip and say why; in CI that would hide a failure."""
    if os.environ.get("CI") and shutil.which("tshark") is None:
        pytest.exit("CI must have tshark: the cross-check tests would all skip", returncode=1)
