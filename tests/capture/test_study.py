"""Which recordings a report is made of."""

from __future__ import annotations

import pytest

from hsa.capture.generate import study
from hsa.capture.generate.matrix import Job


def cells(jobs: list[Job]) -> set[tuple[str, str]]:
    return {(job.cell.name, job.link.name) for job in jobs}


@pytest.mark.parametrize("look", [True, False])
def test_the_study_and_what_it_left_out(look: bool) -> None:
    jobs = study.study(look) + study.beyond(look)
    there = cells(jobs)
    assert len(there) == len(jobs)
    for cell in ("s1.mcp-legacy", "s2.mcp-pinned", "s3.acp"):
        assert {(cell, "relay-0ms"), (cell, "relay-50ms")} <= there
    for cell in (
        *("s1.acp", "tls.a2a", "tls.mcp-legacy-resumed", "h2.mcp-legacy", "binding.a2a-rest", "binding.a2a-grpc"),
        *("oauth.mcp-legacy", "oauth.mcp-modern-refresh", "oauth.mcp-modern-step-up", "node.a2a"),
        *("s1.mcp-legacy-sse", "crowd.mcp-legacy", "inventory.acp-200", "inventory.acp-200-gzip", "inventory.a2a-10"),
    ):
        assert (cell, "path-50ms") in there, cell
    assert {rtt for job in jobs if job.cell.scenario == "sweep" and (rtt := job.link.rtt_ms)} >= {50.0, 100.0}
    assert {job.runs for job in jobs if job.cell.at_once} == {40}


def test_warm_ups_are_as_published_unless_it_is_a_first_look() -> None:
    assert {(job.runs, job.warmups) for job in study.study(False)} == {(50, 5), (20, 3)}
    first = study.study(True)
    assert {job.runs for job in first if job.cell.fault == "slow"} == {2}
    assert {(job.runs, job.warmups) for job in first if job.cell.fault is None} == {(5, 2)}
    assert not any(job.cell.scenario.startswith("s4") and job.link.rtt_ms for job in first)
    assert {job.runs for job in study.study(False, runs=7)} == {7}


def test_groups_can_be_added() -> None:
    assert cells(study.study(True, more=["lives"])) > cells(study.study(True))
    with pytest.raises(ValueError, match="no group"):
        study.study(True, more=["s5"])
