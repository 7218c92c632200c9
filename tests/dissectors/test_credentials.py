"""The kind of credential that a request carries, never the credential."""

from __future__ import annotations

import pytest

from hsa.dissectors.bindings import Bindings
from hsa.dissectors.credentials import credential_of
from hsa.dissectors.view import View
from tests.dissectors.exchanges import JSON, get


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        ("Authorization: Bearer s3cr3t", "bearer"),
        ("authorization: dpop s3cr3t", "dpop"),
        ("Authorization: s3cr3t-without-a-scheme", "other"),
        ("Authorization: S3cr3t value", "other"),
        ("Authorization: bearer", "other"),
        ("Authorization:", "other"),
        ("X-API-Key: s3cr3t", "x-api-key"),
        ("X-Harbour-Key: s3cr3t", "x-harbour-key"),
        ("Accept: */*", None),
    ],
)
def test_kinds(headers: str, kind: str | None) -> None:
    bindings = Bindings()
    view = View(get("/x", JSON, b"{}", headers=headers + "\n"))
    bindings.key_headers.put(str(view.server), ("x-harbour-key",))
    assert credential_of(view, bindings) == kind
