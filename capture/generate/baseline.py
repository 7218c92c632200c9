"""The transport below the handshakes: how long a TCP connect and a TLS 1.3 handshake take on loopback.

One thread accepts, another connects, each time with a new socket and no resumption; the monotonic clock is read
before and after. The certificate is made for the purpose (P-256).
"""

from __future__ import annotations

import socket
import ssl
import tempfile
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

CONNECTS = 200


def measure(n: int = CONNECTS) -> dict[str, Any]:
    """Medians in ms: `connect_ms` of a TCP connect, `tls_ms` of a TLS 1.3 handshake after it; `n` of each."""
    with tempfile.TemporaryDirectory() as folder:
        key, certificate = _certificate(Path(folder))
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.minimum_version = ssl.TLSVersion.TLSv1_3
        server.load_cert_chain(certificate, key)
        client = ssl.create_default_context(cafile=str(certificate))
        client.minimum_version = ssl.TLSVersion.TLSv1_3
    connects, handshakes = [], []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_serve, args=(listening, server, n), daemon=True)
        thread.start()
        for _ in range(n):
            begin = perf_counter_ns()
            plain = socket.create_connection(listening.getsockname())
            connects.append(perf_counter_ns() - begin)
            with plain:
                begin = perf_counter_ns()
                with client.wrap_socket(plain, server_hostname="localhost") as secured:
                    handshakes.append(perf_counter_ns() - begin)
                    secured.recv(1)
        thread.join(10)
    return {"n": n, "connect_ms": median(connects) / 1e6, "tls_ms": median(handshakes) / 1e6}


def _serve(listening: socket.socket, context: ssl.SSLContext, n: int) -> None:
    for _ in range(n):
        plain, _ = listening.accept()
        with plain, context.wrap_socket(plain, server_side=True) as secured:
            secured.send(b".")


def _certificate(folder: Path) -> tuple[Path, Path]:
    """(key, certificate) of `localhost`, valid for a day."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    files = folder / "key.pem", folder / "certificate.pem"
    files[0].write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    files[1].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    return files
