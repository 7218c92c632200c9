"""nginx as a reverse proxy that pools its connections to the counterpart, with a log of each exchange.

It adds no header that names the client: on the wire towards the counterpart nothing but the traffic itself tells the
clients apart, which is the hard case. The log joins both sides: the client's port and the position of the request on
that connection, and the number that the counterpart gave the exchange (taken off before the client sees it).
"""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hsa.capture.generate.served import HEADER

POOL = 16
"""Idle connections that nginx keeps towards the counterpart: fewer than clients, so that they are shared."""
START_S = 10.0

_LOG = {
    "time": "$msec",
    "connection": "$connection",
    "connection_requests": "$connection_requests",
    "client_port": "$remote_port",
    "request_id": "$request_id",
    "request": "$request",
    "status": "$status",
    "request_bytes": "$request_length",
    "response_bytes": "$bytes_sent",
    "request_s": "$request_time",
    "upstream": "$upstream_addr",
    "upstream_connect_s": "$upstream_connect_time",
    "upstream_header_s": "$upstream_header_time",
    "upstream_response_s": "$upstream_response_time",
    "exchange": f"$upstream_http_{HEADER.decode().replace('-', '_')}",
}


class NoProxy(RuntimeError):
    """nginx is not there or does not start; the message says which."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """A running nginx."""

    port: int
    """Where clients go."""
    log: Path
    """Its access log, complete once it has stopped."""


def configuration(folder: Path, port: int, counterpart: int) -> str:
    """The nginx configuration: `port` for clients, `counterpart` behind it, all files in `folder`."""
    log = "{" + ",".join(f'"{name}":"{variable}"' for name, variable in _LOG.items()) + "}"
    temporary = "".join(
        f"    {kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    return f"""daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
{temporary}    log_format exchanges escape=json '{log}';
    access_log {folder}/access.log exchanges;
    upstream counterpart {{ server 127.0.0.1:{counterpart}; keepalive {POOL}; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://counterpart;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_hide_header {HEADER.decode()};
        }}
    }}
}}
"""


@contextmanager
def running(folder: Path, port: int, counterpart: int) -> Iterator[Proxy]:
    """nginx between `port` (0 chooses one) and `counterpart`, its files in `folder`, until the block ends.

    Raises NoProxy.
    """
    path = shutil.which("nginx")
    if path is None:
        raise NoProxy("nginx is not installed (on Debian: apt-get install nginx-light)")
    port = port or free_port()
    (folder / "nginx.conf").write_text(configuration(folder, port, counterpart))
    command = [path, "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf"), "-p", str(folder)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _await(process, port)
        yield Proxy(port, folder / "access.log")
    finally:
        process.send_signal(signal.SIGQUIT)  # lets it finish its log
        try:
            process.communicate(timeout=START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def free_port() -> int:
    """A port of the loopback address that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _await(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    process.kill()
    said = process.communicate()[1].decode(errors="replace").strip()
    raise NoProxy(f"nginx does not start: {said or 'it does not listen'}")


def read_log(file: Path) -> list[dict[str, Any]]:
    """Its lines, numbers as numbers."""
    rows = []
    for line in file.read_text().splitlines():
        row = json.loads(line)
        for name in ("connection", "connection_requests", "client_port", "status", "exchange"):
            row[name] = int(row[name]) if row[name] else None
        rows.append(row)
    return rows
