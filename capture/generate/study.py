"""The recordings of a report: the study's own cells over its relay, and what it left out over a path.

A path charges every packet the delay, so also connections and TLS: there it shows what a cell costs on a real link.
A first look has fewer contacts in a cell; what does not vary between contacts (a document's size) is seen in one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hsa.capture.generate.cells import INVENTORIES
from hsa.capture.generate.groups import GROUPS, select_groups
from hsa.capture.generate.matrix import Job, plan
from hsa.capture.links.link import Link

STUDY = ("s1", "s2", "s3", "s4", "sweep")
RTT_MS = 50.0
"""Of a path, where the study's relay has it too."""
SWEPT_MS = (0.0, 25.0, 50.0, 100.0)
LOOK_RUNS, LOOK_WARMUPS = 5, 2
SLOW_RUNS = 2
"""Of the slow counterpart in a first look: each contact waits for seconds."""
LOOK_SWEPT_MS = (0.0, 100.0)
"""Of a path in a first look; its cold starts have 50 ms."""
LOOK_BEYOND = (3, 1)
"""Contacts and warm-ups of a cell beyond the study, in a first look."""
LOOK_ONCE = (1, 0)
"""... of one that is there for its document."""
UNPUBLISHED = ("s2.mcp-modern-nohints", "s4c.mcp-modern-strict")
"""In groups of the study, but not in its tables: not in a first look."""
CONTROL = (3, 1)
VARIANTS = ("s1.mcp-legacy-sse", "s1.mcp-legacy-json", "s1.mcp-legacy-stateless")
CROWDS = ("crowd.mcp-legacy", "crowd.mcp-mixed")


def study(look: bool, runs: int | None = None, more: Iterable[str] = ()) -> list[Job]:
    """The study's cells and those of the groups `more`; ValueError for a group that is not there."""
    n = runs or (LOOK_RUNS if look else None)
    jobs = plan(select_groups([*STUDY, *more]), ["relay"], (), Link, n, LOOK_WARMUPS if look else None)
    if not look:
        return jobs
    known = [
        job
        for job in jobs
        if not (job.cell.scenario.startswith("s4") and job.link.rtt_ms) and job.cell.name not in UNPUBLISHED
    ]
    return [replace(job, runs=SLOW_RUNS, warmups=0) if job.cell.fault == "slow" else job for job in known]


def beyond(look: bool, runs: int | None = None) -> list[Job]:
    """What the study left out, over a path (and where a cell cannot be, without delay)."""
    few = LOOK_BEYOND if look else (None, None)
    n = runs or few[0]
    once = LOOK_ONCE if look else (n, None)
    cold = plan([GROUPS["s1"]], ["path"], (RTT_MS,), Link, runs or (LOOK_RUNS if look else None), 2 if look else None)
    swept = plan([GROUPS["sweep"]], ["path"], LOOK_SWEPT_MS if look else SWEPT_MS, Link, n, few[1])
    groups = select_groups(["secure", "bindings", "node"])
    variants = replace(GROUPS["variants"], cells=tuple(c for c in GROUPS["variants"].cells if c.name in VARIANTS))
    crowds = replace(GROUPS["crowd"], cells=tuple(c for c in GROUPS["crowd"].cells if c.name in CROWDS))
    served = GROUPS["inventory"]
    if look:  # one capability is a cold start's
        few_cells = (
            c for c in served.cells if c.inventory == INVENTORIES[-1] or not (c.compressed or c.inventory == 1)
        )
        served = replace(served, cells=tuple(few_cells))
    return [
        *cold,
        *swept,
        *plan([*groups, variants], ["path"], (RTT_MS,), Link, n, few[1]),
        *plan([crowds], ["path"], (RTT_MS,), Link),
        *plan([served], ["path"], (RTT_MS,), Link, *once),
    ]


def control() -> list[Job]:
    """A few cold starts without a delay, to be made with the study's SDKs and HTTP client."""
    return plan([GROUPS["s1"]], ["relay"], (0.0,), Link, *CONTROL)
