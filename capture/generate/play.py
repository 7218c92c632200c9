"""Play a cell: counterpart, recorder and client together, and what they leave in a folder.

The counterpart is a process of its own that outlives all contacts, as a service would; the client is another. What is
recorded are the client's packets: on a path at the client's end, with a relay between the client and whom it talks to
(the relay, and the counterpart where its card leads there). Whatever goes wrong, or when the person interrupts, both
end, the recorder stops and half-made files are taken away.
"""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from hsa.capture.generate import certificate, node, proxy, truth
from hsa.capture.generate.cells import Cell
from hsa.capture.generate.embed import embed
from hsa.capture.generate.errand import LOOPBACK, Errand
from hsa.capture.generate.place import Place, place
from hsa.capture.generate.processes import PlayFailed, client, counterpart, python_client, versions
from hsa.capture.generate.sniffer import Sniffer, sniff
from hsa.capture.links.link import LOCAL, Link

KEY_LOG = "keys.log"
RELAYED_PORTS = (9300, 9399)
"""Of a counterpart behind a relay: the size of an agent card depends on the digits of its URL."""
_SDKS = {"mcp": "mcp", "a2a": "a2a", "acp": "acp_sdk"}


@dataclass(frozen=True, slots=True)
class Setting:
    """How to play cells."""

    runs: int | None = None
    """Measured contacts; None for the cell's own number."""
    warmups: int = 2
    """Contacts before them, recorded and marked."""
    slow_ms: float = 2000.0
    """Delay of a slow counterpart's responses, ms."""
    port: int = 0
    """Where clients go; 0 lets the system choose."""
    link: Link = LOCAL
    """What lies between client and counterpart."""
    http: str = "sdk"
    """Whose HTTP client is used, of `errand.HTTP`."""
    sdk: str = "newest"
    """Name of the set of SDK versions, for the truth."""

    def of(self, link: Link, runs: int, warmups: int) -> Setting:
        """The same for another link and number of contacts."""
        return replace(self, link=link, runs=runs, warmups=warmups)

    client_python: str = sys.executable
    """Interpreter of the client process: another environment has other SDK versions."""
    counterpart_python: str = sys.executable


@dataclass(frozen=True, slots=True)
class Recording:
    """What playing a cell left behind."""

    cell: Cell
    files: list[Path]
    """Captures."""
    truth_file: Path
    document: dict[str, Any]


def names(cell: Cell) -> tuple[list[str], list[str]]:
    """Names of the captures and of the other files that playing a cell makes."""
    if cell.pooled:
        return [f"{cell.name}.front.pcap", f"{cell.name}.back.pcap"], [
            f"{cell.name}.truth.json",
            f"{cell.name}.access.log",
        ]
    return [f"{cell.name}.{'pcapng' if cell.tls else 'pcap'}"], [f"{cell.name}.truth.json"]


def missing(cells: list[Cell]) -> list[str]:
    """SDK packages that these cells need and this environment lacks."""
    needed = {_SDKS[cell.protocol] for cell in cells} | {"uvicorn"}
    needed |= {name for cell in cells if cell.http2 for name in ("hypercorn", "h2")}
    needed |= {"grpc" for cell in cells if cell.binding == "grpc"}
    return sorted(name for name in needed if importlib.util.find_spec(name) is None)


def play(
    cell: Cell,
    folder: Path,
    setting: Setting,
    step: Callable[[str], None] = lambda _: None,
    placed: Callable[[Link], AbstractContextManager[Place]] = place,
) -> Recording:
    """Play a cell and leave capture and truth in `folder`; `step` is told each contact as it happens, `placed` gives
    the two sides of the link.

    Raises FileExistsError rather than write over a file, PlayFailed, `sniffer.CannotRecord`, `proxy.NoProxy` and
    `links.namespaces.CannotLink`, and for a Node client `sdks.NoEnvironment`.
    """
    if cell.pooled and setting.link.kind != "local":
        raise PlayFailed(f"a pooled cell is there on a local link only, not on {setting.link.name}")
    if cell.node and setting.link.kind == "relay":
        raise PlayFailed("a Node client has no relay: path and local are there")
    folder.mkdir(parents=True, exist_ok=True)
    captures, others = names(cell)
    for name in captures + others:
        if (folder / name).exists():
            raise FileExistsError(f"{folder / name} exists and is not written over")
    made: list[Path] = []
    try:
        return _play(cell, folder, setting, step, placed, made)
    except BaseException:
        for file in made:
            file.unlink(missing_ok=True)
        raise


def _play(
    cell: Cell,
    folder: Path,
    setting: Setting,
    step: Callable[[str], None],
    placed: Callable[[Link], AbstractContextManager[Place]],
    made: list[Path],
) -> Recording:
    captures, (truth_file, *log_file) = ([folder / name for name in part] for part in names(cell))
    runs = cell.default_runs if setting.runs is None else setting.runs
    warmups = 0 if cell.at_once else setting.warmups
    served: list[dict[str, Any]] = []
    log: list[dict[str, Any]] = []
    command = node.command() if cell.node else python_client(setting.client_python)
    began = datetime.now(UTC)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hsa-generate-")))
        where = stack.enter_context(placed(setting.link))
        waiting, going, ports = _errands(cell, setting, where, runs, warmups)
        environment, key_log = {}, scratch / KEY_LOG
        if cell.tls:
            authority, own_certificate = certificate.make(scratch, where.host)
            waiting = replace(waiting, certificate=str(own_certificate))
            environment = {"SSL_CERT_FILE": str(authority), "SSLKEYLOGFILE": str(key_log)}
        player = stack.enter_context(client(command, cell.protocol, where.client_side(), environment))
        port, *more = stack.enter_context(counterpart(setting.counterpart_python, waiting, served, where.server_side()))
        if cell.pooled:
            nginx = stack.enter_context(proxy.running(scratch, ports[0], port))
        ports += [port, *more]
        own = f"{cell.scheme}://{where.host}:{port}"
        going = replace(going, direct=own, url=going.url or own)
        if cell.course == "push":
            going = replace(going, webhook=more[-1])
        with ExitStack() as recording:
            sides = [ports[:1], ports[1:]] if cell.pooled else [ports]
            sniffers = [
                recording.enter_context(_sniffing(file, side, where, made, prompt=not cell.at_once))
                for file, side in zip([file.with_suffix(".pcap") for file in captures], sides, strict=True)
            ]
            primed, told = player.contacts(going, step)
            time.sleep(max(sniffer.settle_s for sniffer in sniffers))
        if cell.tls:
            captures = [_with_secrets(file, key_log, made) for file in captures]
        if cell.pooled:
            log = proxy.read_log(nginx.log)
            _write(log_file[0], nginx.log.read_text(), made)
    dropped = [sniffer.dropped for sniffer in sniffers]
    made_with = {
        "hsa": metadata.version("hsa"),
        "recorder": sniffers[0].tool,
        "dropped": sum(n for n in dropped if n is not None) if None not in dropped else None,
        "sdk": setting.sdk,
        "http": setting.http,
        "client": node.versions() if cell.node else versions(setting.client_python),
        "counterpart": versions(setting.counterpart_python),
    }
    document = truth.compose(cell, captures, ports, told, primed, made_with, setting.slow_ms)
    document["recorded"] = began.isoformat(timespec="seconds")
    document["link"] = setting.link.document()
    if where.ends is not None:
        document["link"]["packets"] = dict(zip(("up", "down"), where.ends.counts[0], strict=True))
    if cell.pooled:
        document["pool"] = truth.join_pool(document, log, served)
    _write(truth_file, truth.text(document), made)
    return Recording(cell, captures, truth_file, document)


def _errands(cell: Cell, setting: Setting, where: Place, runs: int, warmups: int) -> tuple[Errand, Errand, list[int]]:
    """What counterpart and client are to do, and the ports on which something stands before the counterpart."""
    common = Errand(cell, "", slow_ms=setting.slow_ms, host=where.host, http=setting.http)
    going = replace(common, runs=runs, warmups=warmups)
    if setting.link.kind == "relay":
        port = setting.port or proxy.free_port()
        front = f"{cell.scheme}://{LOOPBACK}:{port}"
        waiting = replace(common, public=front, port=RELAYED_PORTS[0], port_to=RELAYED_PORTS[1])
        return waiting, replace(going, url=front, relay_delay_ms=setting.link.rtt_ms / 2), [port]
    if cell.pooled:
        port = setting.port or proxy.free_port()
        front = f"http://{LOOPBACK}:{port}"
        return replace(common, url=front), replace(going, url=front), [port]
    return replace(common, port=setting.port), going, []


def _with_secrets(file: Path, key_log: Path, made: list[Path]) -> Path:
    """Put the secrets of a key log into a recording, which becomes a pcapng file."""
    recorded, file = file.with_suffix(".pcap"), file.with_suffix(".pcapng")
    made.append(file)
    embed(recorded, key_log.read_bytes(), file)
    recorded.unlink()
    return file


def _write(file: Path, text: str, made: list[Path]) -> None:
    with open(file, "x") as out:
        made.append(file)
        out.write(text)


@contextmanager
def _sniffing(file: Path, ports: list[int], where: Place, made: list[Path], prompt: bool) -> Iterator[Sniffer]:
    with where.client_side():
        sniffer = sniff(file, ports, where.interface, where.without, prompt)
    made.append(file)
    try:
        yield sniffer
    finally:
        sniffer.stop()
