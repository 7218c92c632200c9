"""On every committed capture hsa and tshark agree, or differ for a reason on the list."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hsa.analysis.options import Options
from hsa.analysis.pipeline import Pipeline
from hsa.analysis.verify import verify

FIXTURES = Path(__file__).parent.parent / "fixtures"
CAPTURES = sorted(p for p in FIXTURES.rglob("*") if p.name.endswith((".pcap", ".pcapng", ".pcap.gz", ".pcap.zst")))
FAST = {"s1.mcp-legacy.local.pcap", "s1.acp.local.pcap", "case12b.pcap", "case21a.pcap", "case62f.pcap", "case63c.pcap"}

pytestmark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]


@pytest.mark.parametrize(
    "capture",
    [
        pytest.param(p, id=str(p.relative_to(FIXTURES)), marks=[] if p.name in FAST else pytest.mark.slow)
        for p in CAPTURES
    ],
)
def test_every_difference_has_a_reason(capture: Path) -> None:
    pipeline = Pipeline([str(capture)], Options(tokenizer="none"), keep_exchanges=True)
    for _ in pipeline.run():
        pass
    pipeline.analysis()
    differences, _ = verify(str(capture), 0, pipeline.kept())
    assert [d for d in differences if d.reason is None] == []
