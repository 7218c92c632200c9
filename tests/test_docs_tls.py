"""`docs/tls.md` tried: each program writes its key log as the page says, and hsa opens what it said with it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import hsa
from hsa.capture.growing import Growing
from tests.capture.certificates import certificates
from tests.capture.test_relay import in_a_thread
from tests.needs import need, need_tool

PAGE = (Path(__file__).parents[1] / "docs" / "tls.md").read_text()
CURL = ["curl", "-s", "-k", "-o", "/dev/null"]
Environment = Mapping[str, str]


def snippet(language: str) -> str:
    """The code block of the page in that language."""
    found: list[str] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    assert len(found) == 1
    return found[0]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextmanager
def serving(
    command: Sequence[str | Path], port: int, output: Path, environment: Environment = os.environ
) -> Iterator[None]:
    """The server while it listens."""
    with output.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.PIPE, env=environment, cwd=output.parent)
        try:
            for _ in range(300):
                assert process.poll() is None, process.stderr.read() if process.stderr else ""
                with socket.socket() as one:
                    if one.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            process.communicate()


def opened(capture: Path, keys: Path) -> list[tuple[int | None, str | None]]:
    """Status and target of what hsa reads; without the key log it is nothing."""
    assert not list(hsa.exchanges(capture))
    return [(e.status, e.target) for e in hsa.exchanges(capture, keylog=keys)]


def recorded(
    folder: Path, port: int, *, clients: Sequence[Sequence[str]], environment: Environment = os.environ
) -> Path:
    """Clients one after the other, by TLS 1.3 and 1.2, through a relay that records."""
    capture = folder / "relay.pcapng"
    with in_a_thread(port, Growing(capture)) as (_, at):
        for command in clients:
            subprocess.run([word.replace("PORT", str(at)) for word in command], check=True, env=environment, timeout=60)
            time.sleep(0.2)
    return capture


BOTH = [[*CURL, "https://127.0.0.1:PORT/new"], [*CURL, "--tls-max", "1.2", "https://127.0.0.1:PORT/old"]]
READ = [(200, "/new"), (200, "/old")]


def test_nginx_with_a_library_ahead(tmp_path: Path) -> None:
    need_tool("nginx", "nginx")
    need_tool("cc", "gcc")
    _, certificate, key = certificates(tmp_path)
    (tmp_path / "keylog.c").write_text(snippet("c"))
    build = next(line.split() for line in PAGE.splitlines() if line.startswith("    cc "))
    subprocess.run(build, check=True, cwd=tmp_path)
    port, keys = free_port(), tmp_path / "keys.txt"
    paths = "".join(f"{n}_temp_path {tmp_path}/{n};" for n in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (tmp_path / "nginx.conf").write_text(
        f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\n"
        f"http {{ access_log off; {paths} server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {certificate}; "
        f"ssl_certificate_key {key}; location / {{ return 200 hello; }} }} }}\n"
    )
    environment = {**os.environ, "SSLKEYLOGFILE": str(keys), "LD_PRELOAD": str(tmp_path / "keylog.so")}
    with serving(["nginx", "-c", tmp_path / "nginx.conf"], port, tmp_path / "out", environment):
        capture = recorded(tmp_path, port, clients=BOTH)
    assert opened(capture, keys) == READ


def test_haproxy_by_its_log(tmp_path: Path) -> None:
    need_tool("haproxy", "haproxy")
    _, certificate, key = certificates(tmp_path)
    (tmp_path / "both.pem").write_text(Path(certificate).read_text() + Path(key).read_text())
    port = free_port()
    more = f"""    mode http
    timeout client 10s
    bind 127.0.0.1:{port} ssl crt {tmp_path}/both.pem
    http-request return status 200 content-type text/plain string hello
"""
    (tmp_path / "haproxy.cfg").write_text(snippet("haproxy") + more)
    with serving(["haproxy", "-f", tmp_path / "haproxy.cfg"], port, tmp_path / "keys.txt"):
        capture = recorded(tmp_path, port, clients=BOTH)
    assert opened(capture, tmp_path / "keys.txt") == READ


PYTHON_SERVER = """
import http.server, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(*sys.argv[2:4])
context.keylog_filename = "keys.txt"
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@contextmanager
def python_server(folder: Path) -> Iterator[int]:
    _, certificate, key = certificates(folder)
    port = free_port()
    command = [sys.executable, "-c", PYTHON_SERVER, str(port), certificate, key]
    with serving(command, port, folder / "out"):
        yield port


def test_a_python_server_and_its_secrets_put_into_the_capture(tmp_path: Path) -> None:
    need_tool("curl", "curl")
    need_tool("editcap", "wireshark-common")
    assert 'context.keylog_filename = "keys.txt"' in PAGE
    with python_server(tmp_path) as port:
        capture = recorded(tmp_path, port, clients=BOTH)
    assert opened(capture, tmp_path / "keys.txt") == READ
    capture.rename(tmp_path / "in.pcapng")
    (inject,) = re.findall(r"`(editcap --inject-secrets [^`]*)`", PAGE)
    subprocess.run(inject.split(), check=True, cwd=tmp_path)
    assert [(e.status, e.target) for e in hsa.exchanges(tmp_path / "out.pcapng")] == READ


HTTPX = "import httpx; httpx.get('https://localhost:PORT/new')"
REQUEST = (
    "require('https').get({port: PORT, host: '127.0.0.1', path: '/new', rejectUnauthorized: false}, r => r.resume())"
)


@pytest.mark.parametrize(
    ("tool", "command", "variable", "value"),
    [
        ("curl", BOTH[0], "SSLKEYLOGFILE", "FILE"),
        (sys.executable, [sys.executable, "-c", HTTPX], "SSLKEYLOGFILE", "FILE"),
        ("node", ["node", "-e", REQUEST], "NODE_OPTIONS", "--tls-keylog=FILE"),
    ],
)
def test_clients_by_their_environment(tool: str, command: list[str], variable: str, value: str, tmp_path: Path) -> None:
    need(shutil.which(tool) is not None, tool)
    assert f"`{variable}={value.replace('FILE', 'keys.txt')}`" in PAGE
    keys = tmp_path / "client.keys"
    with python_server(tmp_path) as port:
        trust = {"SSL_CERT_FILE": str(tmp_path / "ca.pem")}
        environment = {**os.environ, **trust, variable: value.replace("FILE", str(keys))}
        capture = recorded(tmp_path, port, clients=[command], environment=environment)
    assert opened(capture, keys) == READ[:1]


GO = """package main

import ("crypto/tls"; "log"; "net/http"; "os")

func main() {
SNIPPET
config.InsecureSkipVerify = true
client := http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
answer, err := client.Get(os.Args[1])
if err != nil {
	log.Fatal(err)
}
answer.Body.Close()
}
"""


@pytest.mark.slow
def test_a_go_client(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        pytest.skip("needs go (Debian package golang-go)")
    assert GO.splitlines()[7].partition(":= ")[2] in PAGE
    (tmp_path / "client.go").write_text(
        GO.replace("SNIPPET", snippet("go").replace("keys.txt", str(tmp_path / "go.keys")))
    )
    subprocess.run(
        ["go", "build", "-o", "client", "client.go"], cwd=tmp_path, check=True, env={**os.environ, "CGO_ENABLED": "0"}
    )
    with python_server(tmp_path) as port:
        capture = recorded(tmp_path, port, clients=[[str(tmp_path / "client"), "https://127.0.0.1:PORT/new"]])
    assert opened(capture, tmp_path / "go.keys") == READ[:1]
