"""A certificate for the counterpart of a TLS cell, and the authority that signed it, good for this recording only."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import KeyUsage

AUTHORITY = "authority.pem"
COUNTERPART = "counterpart.pem"
LIFETIME = timedelta(days=7)


def make(folder: Path, host: str) -> tuple[Path, Path]:
    """Files of the authority's certificate, and of the counterpart's with its key, for the address `host`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("hsa recording authority", "echo-agent")
    ]
    signed = []
    for is_authority, key, name in zip((True, False), keys, names, strict=True):
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(names[0])
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + LIFETIME)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key()), critical=False)
            .add_extension(_usage(is_authority), critical=True)
        )
        if not is_authority:
            address = x509.IPAddress(ipaddress.ip_address(host))
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        signed.append(builder.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    key_text = keys[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    authority, counterpart = folder / AUTHORITY, folder / COUNTERPART
    authority.write_bytes(signed[0])
    counterpart.touch(mode=0o600)
    counterpart.write_bytes(signed[1] + key_text)
    return authority, counterpart


def _usage(is_authority: bool) -> KeyUsage:
    from cryptography import x509

    others = dict.fromkeys(
        ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only"), False
    )
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=is_authority, crl_sign=is_authority, decipher_only=False, **others
    )
