"""The dated revisions of MCP and what follows from each."""

from __future__ import annotations

HANDSHAKE_VERSIONS = frozenset(("2024-10-07", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"))
"""Revisions agreed by `initialize`. 2024-10-07 was never tagged, but SDKs of other languages still accept it."""
MODERN_VERSIONS = frozenset(("2026-07-28",))
"""Revisions in which each request describes itself."""
KNOWN_VERSIONS = HANDSHAKE_VERSIONS | MODERN_VERSIONS
