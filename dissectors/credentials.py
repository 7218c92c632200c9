"""What a request proves itself with: the kind of credential, never the credential.

Source: RFC 9110 section 11.6.2; A2A security schemes (a card names the header of an API key).
"""

from __future__ import annotations

from hsa.dissectors.bindings import Bindings, hosts_of
from hsa.dissectors.view import View

SCHEMES = frozenset(
    (
        *("basic", "bearer", "dpop", "digest", "didwba", "gnap", "hmac", "hoba", "mutual", "negotiate", "ntlm"),
        *("apikey", "token", "aws4-hmac-sha256", "privatetoken", "signature"),
    )
)
"""Schemes that are named; of any other only that it is another, since the word might be the secret itself."""
KEY_HEADERS = ("x-api-key", "api-key", "x-goog-api-key", "ocp-apim-subscription-key", "x-auth-token", "signature-input")


def credential_of(view: View, bindings: Bindings) -> str | None:
    """Scheme of the Authorization header, else the name of the header that carries a key, else None."""
    headers = view.headers
    value = headers.get("authorization")
    if value is not None:
        scheme = value[:32].split(" ", 1)[0].lower()
        return scheme if scheme in SCHEMES and " " in value else "other"
    if len(bindings.key_headers):
        for host in hosts_of(view):
            for name in bindings.key_headers.get(host) or ():
                if name in headers:
                    return name
    for name in KEY_HEADERS:
        if name in headers:
            return name
    return None
