"""From capture files to results: the one place where the layers are put in a row.

Blocks of records go through the driver of the dissectors; its exchanges are read by the protocols, put in order of
their request's start, joined to sessions, and sessions that are over are folded into handshakes, so that memory does
not grow with the capture but by one small record for each handshake.
"""

from __future__ import annotations

import gc
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from hsa.analysis.assembly import Assembler
from hsa.analysis.exchange_log import ExchangeLog
from hsa.analysis.exchanges import not_before, record, refresh, take_answer
from hsa.analysis.filters import wanted, within
from hsa.analysis.groups import groups
from hsa.analysis.keys import key_log
from hsa.analysis.late_answers import LateAnswers, resumes
from hsa.analysis.model import Analysis, Exchange, Handshake
from hsa.analysis.options import Options
from hsa.analysis.overhead import Overheads
from hsa.analysis.results import Results
from hsa.analysis.session import end_of
from hsa.analysis.startup import Startups
from hsa.capture.files import Reader, open_traces
from hsa.capture.records import Records
from hsa.dissectors.connection import Connection
from hsa.dissectors.driver import Driver
from hsa.dissectors.http import HttpExchange
from hsa.dissectors.nesting import Opener
from hsa.dissectors.packets import part
from hsa.dissectors.reading import Reading, Role
from hsa.dissectors.recognise import Recogniser
from hsa.dissectors.registry import open_stream

BLOCKS_A_COLLECTION = 64
"""Blocks between two runs of the cycle collector, which is paused in between: objects here are many and long-lived,
and those that form cycles are taken apart when a session is folded."""

EXCHANGES_AT_ONCE = 1_024
"""Exchanges of one piece of a block that are aimed at: where traffic is dense, blocks go through in smaller pieces, so
that few exchanges are in memory at one time."""
MOST_ROWS, FEWEST_ROWS = 65_536, 4_096
"""Bounds of such a piece, packets."""

HOLD_NS = 30_000_000_000
"""An exchange that is still open holds later ones back for no longer than this (capture time)."""

AGENT_PROTOCOLS = ("mcp", "a2a", "acp", "anp", "agora")
"""Protocols whose sessions are put together; others are recognised and counted."""

Paths = Sequence[str | os.PathLike[str]]


def analyze_traces(paths: Paths, options: Options, progress: Callable[[int], None] | None = None) -> Analysis:
    """Analyze capture files, folders or `-`. `progress` is told the packets read so far, now and then.

    Files that cannot be read as captures are in `Analysis.errors`; nothing raises because of what a capture holds.
    """
    pipeline = Pipeline(paths, options, keep_exchanges=False, progress=progress)
    for _ in pipeline.run():
        pass
    return pipeline.analysis()


def iter_exchanges(paths: Paths, options: Options, progress: Callable[[int], None] | None = None) -> Iterator[Exchange]:
    """Every HTTP exchange, agent traffic or not, in order of request start, numbered (`serial` is the id)."""
    pipeline = Pipeline(paths, options, keep_exchanges=True, whole_exchanges=False, progress=progress)
    for _ in pipeline.run():
        pass
    pipeline.analysis()
    yield from pipeline.kept()


@contextmanager
def collector_paused() -> Iterator[None]:
    """No automatic runs of Python's cycle collector inside, if it was on."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.freeze()  # what was made meanwhile counts as old: the next young collection need not go through it
            gc.unfreeze()
            gc.enable()


@dataclass(slots=True, eq=False)
class _Pending:
    """An exchange that waits for its turn."""

    start: int
    serial: int
    http: HttpExchange
    final: bool = False
    reading: Reading | None = None
    record: Exchange | None = None


class Pipeline:
    """One run over the captures. `run` does the work; `analysis` gives the result once it is done."""

    def __init__(
        self,
        paths: Paths,
        options: Options,
        *,
        keep_exchanges: bool,
        whole_exchanges: bool = True,
        progress: Callable[[int], None] | None = None,
        opener: Opener = open_stream,
    ) -> None:
        self._options = options
        self._reader: Reader = open_traces(paths, reorder_window_ns=options.reorder_window_ns)
        secrets = key_log(options, self._reader)
        self._driver = Driver(_Watched(self._reader, options, self, progress), opener=opener, secrets=secrets)
        self._driver.opaque.wanted = lambda connection, name: wanted(
            connection, name, options, self._driver.names.name_of
        )
        self._recogniser = Recogniser()
        self._late = LateAnswers()
        self._assembler = Assembler(idle_ns=int(options.idle_s * 1e9), merge_hops=options.hops == "merged")
        self._log = ExchangeLog(whole=whole_exchanges) if keep_exchanges else None
        self._results = Results(options, self._assembler, self._driver, self._late, self._log)
        self._pending: list[_Pending] = []
        self._resumed: list[HttpExchange] = []
        self._waiting: dict[HttpExchange, _Pending] = {}
        self._open: dict[HttpExchange, Exchange] = {}
        self._starts = array("q")
        self._floors: dict[Connection, int] = {}
        self._skipped: set[HttpExchange] = set()
        self.watermark_ns = 0
        self.block_done = False
        self._blocks = 0
        self._kept: Sequence[Exchange] = ()

    @property
    def begun(self) -> int:
        """Exchanges seen so far."""
        return len(self._starts)

    def run(self) -> Iterator[None]:
        """Read everything; yields now and then so that a caller may stop early with what is known."""
        with collector_paused():
            yield from self._run()

    def _run(self) -> Iterator[None]:
        for http, final in self._driver:
            if self.block_done:
                self.block_done = False
                self._blocks += 1
                if self._blocks % BLOCKS_A_COLLECTION == 0:
                    gc.collect()
                self._release(at_end=False)
                yield None
            self._take(http, final)
        self.stop()

    def stop(self) -> None:
        """End here: what has been read is all there is. `run` does it at the end; a caller that leaves `run` early
        (or was interrupted in it) does it itself."""
        self._release(at_end=True)
        for http, exchange in self._open.items():
            self._refresh(http, exchange)

    def kept(self) -> Sequence[Exchange]:
        """All exchanges in order of start, `serial` their position; once there is an analysis, if they are kept."""
        return self._kept

    # -- one exchange --------------------------------------------------------------------------------------------

    def _take(self, http: HttpExchange, final: bool) -> None:
        known = self._waiting.get(http)
        if known is not None:
            known.final = final
            return
        if http in self._open:
            if final:
                exchange = self._open.pop(http)
                self._refresh(http, exchange)
                if self._log is not None:
                    self._log.final(exchange)
            return
        if http in self._skipped:
            if final:
                self._skipped.discard(http)
            return
        if not wanted(http.connection, http.authority, self._options, self._driver.names.name_of):
            if not final:
                self._skipped.add(http)
            return
        connection = http.connection
        http.order = connection.exchanges
        if http.request is None or http.request.method != "CONNECT":
            connection.exchanges += 1
        start = http.start.t_first_ns
        if start < connection.floor_ns and connection.clock_steps:
            start = connection.floor_ns
        connection.floor_ns = start
        pending = _Pending(start, len(self._starts), http, final)
        self._starts.append(pending.start)
        self._waiting[http] = pending
        self._pending.append(pending)

    def _refresh(self, http: HttpExchange, exchange: Exchange) -> None:
        try:
            self._bring_up_to_date(http, exchange)
        except Exception as error:
            self._results.fault(error, exchange.first_frame)

    def _bring_up_to_date(self, http: HttpExchange, exchange: Exchange) -> None:
        if exchange.llm:
            again = self._recogniser.read(http)
            if again is not None and again.llm is not None:
                self._results.llm.again(exchange, again)
        late = exchange.answer if exchange.reading is not None and exchange.reading.answered_elsewhere else None
        reading = self._recogniser.read(http) if exchange.reading is not None else None
        refresh(exchange, http, reading, all_messages=self._log is not None)
        if late is not None:
            take_answer(exchange, late)
        self._assembler.brought_up_to_date(exchange)

    def _release(self, at_end: bool) -> None:
        """Hand on what is complete, in order of start; stop at the first that is not and is still young."""
        self._pending.sort(key=lambda p: (p.start, p.serial))
        self._resumed = [p.http for p in self._pending if resumes(p.http)]
        done = 0
        for pending in self._pending:
            patient = not at_end and pending.start > self.watermark_ns - HOLD_NS
            if patient and not pending.final and not _is_standing(pending.http):
                break
            try:
                if pending.record is None:
                    self._read(pending)
                if self._waits(pending) and patient:
                    break
                self._hand_on(pending)
            except Exception as error:
                self._results.fault(error, pending.http.start.first_frame)
                self._waiting.pop(pending.http, None)
            done += 1
        del self._pending[:done]
        if not at_end:
            handed_on_ns = min(self.watermark_ns, self._pending[0].start) if self._pending else self.watermark_ns
            self._results.fold(handed_on_ns, self._open.values())

    def _read(self, pending: _Pending) -> None:
        pending.reading = self._recogniser.read(pending.http)
        request, response = pending.http.request, pending.http.response
        if request is not None and request.method == "CONNECT" and response is not None:
            before = pending.http.connection.tunnel_ns
            pending.http.connection.tunnel_ns = (
                before[0] if before is not None else request.seen.t_first_ns,
                response.seen.t_last_ns,
            )
        pending.record = record(pending.http, pending.reading, pending.serial, all_messages=self._log is not None)
        connection = pending.http.connection
        if connection.clock_steps:
            not_before(pending.record, max(pending.start, self._floors.get(connection, 0)))
            self._floors[connection] = end_of(pending.record)

    def _waits(self, pending: _Pending) -> bool:
        """Look for an answer that comes on another stream; True when there is none yet."""
        reading, exchange = pending.reading, pending.record
        if reading is None or exchange is None or exchange.answer is not None:
            return False
        if not (reading.answered_elsewhere or (reading.session and reading.rpc_id is not None)):
            return False
        message = self._late.find(exchange, reading, self._resumed)
        if message is None:
            return reading.answered_elsewhere
        take_answer(exchange, self._recogniser.read_answer(reading, message))
        return False

    def _hand_on(self, pending: _Pending) -> None:
        http, reading, exchange = pending.http, pending.reading, pending.record
        assert exchange is not None
        del self._waiting[http]
        if not pending.final:
            self._open[http] = exchange
        try:
            if reading is not None:
                self._join(http, reading, exchange)
        finally:
            if self._log is not None:
                self._log.add(exchange, pending.final)

    def _join(self, http: HttpExchange, reading: Reading, exchange: Exchange) -> None:
        """Give an exchange to its session."""
        if reading.protocol not in AGENT_PROTOCOLS and reading.role is not Role.AUTH:
            self._results.other_protocols[reading.protocol] = self._results.other_protocols.get(reading.protocol, 0) + 1
            if reading.llm is not None:
                self._results.llm.add(exchange, reading)
                exchange.llm = True
            exchange.protocol = exchange.operation = exchange.phase = None
            exchange.reading = exchange.answer = None
            return
        if http.response is not None and http.response.event_stream:
            exchange.marks = http.response.marks
            if reading.role is Role.STREAM or (reading.answer is not None and reading.answer.endpoint):
                self._late.add_carrier(http, reading)
        session = self._assembler.add(exchange)
        if session is not None or exchange.outer is not None:
            self._results.agent_connection(http.connection, http.authority)

    # -- results -------------------------------------------------------------------------------------------------

    def analysis(self) -> Analysis:
        """The result, once `run` is exhausted."""
        with collector_paused():
            return self._analysis()

    def _analysis(self) -> Analysis:
        ids = np.empty(len(self._starts), dtype=np.int64)
        ids[np.argsort(np.array(self._starts, dtype=np.int64), kind="stable")] = np.arange(len(ids))
        handshakes = self._results.finish(self.watermark_ns, array("q", ids.tobytes()))
        analysis = Analysis(traces=self._reader.traces, handshakes=handshakes, errors=list(self._reader.errors))
        if self._log is not None:
            self._kept = self._results.exchanges(self._log)
        self._results.fill(analysis)
        starting, overheads = Startups(), Overheads()
        analysis.groups = groups(overheads.watch(starting.watch(handshakes)))
        analysis.overhead, analysis.clients = overheads.rows(), overheads.clients()
        analysis.startup = starting.rows()
        return analysis


class _Watched:
    """The blocks of a reader, in pieces; tells the pipeline when one has gone through all layers."""

    def __init__(
        self, reader: Reader, options: Options, pipeline: Pipeline, progress: Callable[[int], None] | None
    ) -> None:
        self.traces = reader.traces
        self._blocks = within(reader, options.since_ns, options.until_ns)
        self._pipeline, self._progress = pipeline, progress

    def __iter__(self) -> Iterator[Records]:
        packets, rows, pipeline = 0, 2 * FEWEST_ROWS, self._pipeline
        for block in self._blocks:
            at = 0
            while at < len(block):
                records = part(block, at, at + rows)
                at += len(records)
                begun = pipeline.begun
                yield records
                packets += len(records)
                if pipeline.begun - begun > EXCHANGES_AT_ONCE:
                    rows = max(rows // 2, FEWEST_ROWS)
                elif (pipeline.begun - begun) * 4 < EXCHANGES_AT_ONCE:
                    rows = min(rows * 2, MOST_ROWS)
                pipeline.watermark_ns = max(pipeline.watermark_ns, int(records.t_ns.max(initial=0)))
                pipeline.block_done = True
            if self._progress is not None:
                self._progress(packets)


def _is_standing(http: HttpExchange) -> bool:
    """An event stream that has begun and may never end."""
    request, response = http.request, http.response
    if response is None or not response.event_stream or request is None:
        return False
    return request.method == "GET" and (response.events > 0 or response.comments > 0)


__all__ = ["Handshake", "Pipeline", "analyze_traces", "iter_exchanges"]
