"""The output: order of members as the contract prints it, the packaged schema, times and numbers."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from hsa.analysis.output import VERSION, analysis_json, exchange_json, number, time_text
from hsa.analysis.redact import Door
from tests.made import analysis, exchange, handshake, rich_analysis, trace

ROOT = Path(__file__).parents[2]
SCHEMAS = ROOT / "analysis" / "schema"


def words(text: str) -> list[str]:
    return text.split()


HANDSHAKE_ORDER = words(
    "id protocol era version transport client client_name server server_name authority outcome cause "
    "detail ready_by warm observed attribution bound vantage rtt_ms start ready time_to_ready_ms "
    "client_time_to_ready_ms wire_time_ms user_wait_ms time_to_outcome_ms connect_ms tls_ms round_trips "
    "critical_round_trips network_round_trips attempts retries redirects connections connections_opened "
    "connections_failed streams bytes_up bytes_down captured_bytes_up captured_bytes_down phases metadata "
    "after_ready refetches first_task tasks hops parent exchanges frames notes"
)
GROUP_ORDER = words(
    "protocol era version transport server outcome warm auth vantage n n_exact round_trips "
    "critical_round_trips connections bytes_up bytes_down tokens time_to_ready_ms wire_time_ms"
)
TOP_ORDER = words("schema hsa traces handshakes groups startup connections probes other_protocols notes damage")
EXCHANGE_ORDER = words(
    "id trace connection stream http client server method target authority status request_start "
    "request_end response_start response_end bytes_up bytes_down request_body response_body content_type "
    "complete tls frames protocol operation phase handshake hop messages"
)


def schema(name: str) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json.loads((SCHEMAS / f"{name}.json").read_text()))


def test_order_of_members_is_the_contracts() -> None:
    shown = analysis_json(rich_analysis())
    assert list(shown)[: len(TOP_ORDER)] == TOP_ORDER
    assert list(shown["handshakes"][0])[: len(HANDSHAKE_ORDER)] == HANDSHAKE_ORDER
    assert list(shown["groups"][0])[: len(GROUP_ORDER)] == GROUP_ORDER
    assert list(exchange_json(exchange(), 0)) == EXCHANGE_ORDER


def test_output_fits_its_schema() -> None:
    shown = Door(b"k").clean(analysis_json(rich_analysis()))
    schema("analysis-v1").validate(json.loads(json.dumps(shown)))
    line = Door(b"k").clean(exchange_json(exchange(), 0))
    schema("exchange-v1").validate(json.loads(json.dumps(line)))


def test_an_empty_analysis_fits_too() -> None:
    schema("analysis-v1").validate(analysis_json(analysis(traces=[])))


@pytest.mark.parametrize("name", ["analysis-v1", "exchange-v1"])
def test_schemas_are_schemas(name: str) -> None:
    validator = schema(name)
    validator.check_schema(validator.schema)


def test_schema_knows_every_member() -> None:
    """Nothing is printed that the schema does not describe."""
    described = json.loads((SCHEMAS / "analysis-v1.json").read_text())
    shown = analysis_json(rich_analysis())
    assert set(shown) == set(described["properties"])
    definitions = described["$defs"]
    assert set(shown["handshakes"][0]) == set(definitions["handshake"]["properties"])
    assert set(shown["groups"][0]) == set(definitions["group"]["properties"])
    assert set(shown["traces"][0]) == set(definitions["trace"]["properties"])
    line = json.loads((SCHEMAS / "exchange-v1.json").read_text())
    assert set(exchange_json(exchange(), 0)) == set(line["properties"])


def test_values_of_the_contracts_example() -> None:
    h = analysis_json(analysis(handshake(0)))["handshakes"][0]
    assert h["rtt_ms"] == {"client_side": 0.02, "server_side": 0.03}
    assert h["phases"]["session"] == {"round_trips": 1, "ms": 7.7, "bytes_up": 395, "bytes_down": 661}
    assert (h["metadata"]["tokens"], h["metadata"]["usd_per_million"], h["frames"]) == (181, 543, [0, 1, 42])


def test_times() -> None:
    assert time_text(None) is None
    assert time_text(0) == "1970-01-01T00:00:00.000000000Z"
    assert time_text(1_785_240_000_123_456_789) == "2026-07-28T12:00:00.123456789Z"
    assert time_text(-1) == "1969-12-31T23:59:59.999999999Z"
    for extreme in (-(2**63), 2**63 - 1):
        shown = time_text(extreme)
        assert shown is not None and shown.endswith("Z")


def test_numbers() -> None:
    assert number(None) is None and number(float("nan")) is None and number(float("inf")) is None
    assert number(3.0) == 3 and isinstance(number(3.0), int)
    assert number(40.4499999999) == 40.45


def test_frames_are_wiresharks() -> None:
    second = exchange(first_frame=(1 << 40) | 12, last_frame=(1 << 40) | 19, trace=1)
    assert exchange_json(second, 5)["frames"] == [12, 19]


def test_link_types_are_named() -> None:
    shown = analysis_json(analysis(traces=[trace(), trace(1, interfaces=[])]))
    assert [t["link_types"] for t in shown["traces"]] == [["EN10MB"], []]


def test_version_is_the_distributions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
