"""The table of conversations: finding keys, stable order, forgetting."""

from __future__ import annotations

import random

import numpy as np
import pytest

import hsa.dissectors.tcp as tcp
from hsa.dissectors.flows import DROPPED, Conversations, KeyTable, by_key
from tests.dissectors.frames import MS, SYN, Frame, Talk
from tests.dissectors.streams import run


def test_key_table_against_a_dict() -> None:
    rng = random.Random(2)
    table, known = KeyTable(16), {}
    pool = [rng.getrandbits(64) or 1 for _ in range(3000)] + [1 << 40 | i << 20 for i in range(500)]  # many collide
    for _ in range(60):
        keys = rng.sample(pool, rng.randrange(1, 120))
        rows = [rng.randrange(1 << 30) for _ in keys]
        table.put(np.array(keys, np.uint64), np.array(rows, np.int64))
        known.update(zip(keys, rows, strict=True))
        asked = rng.sample(pool, 200)
        found = table.find(np.array(asked, np.uint64)).tolist()
        assert found == [known.get(key, -1) for key in asked]


@pytest.mark.parametrize("bits", [64, 8, 1])
def test_order_is_stable(bits: int) -> None:
    """Also where keys differ only in the bits that the fast sort has no room for."""
    rng = random.Random(bits)
    keys = np.array([rng.getrandbits(bits) for _ in range(1000)], np.uint64)
    assert by_key(keys).tolist() == np.argsort(keys, kind="stable").tolist()


def test_forget_keeps_the_newest_and_the_live() -> None:
    table = Conversations()
    first = table.add(100)
    table.key[:100] = np.arange(1, 101)
    table.number[:100] = np.arange(100)
    table.state[:100] = DROPPED
    table.state[3] = 0
    table.table.put(table.key[:100].copy(), np.arange(100))
    moved = table.forget(10)
    assert first == 0
    assert table.size == 11
    assert table.forgotten == 89
    assert moved[3] == 0
    assert moved[99] == 10
    assert table.table.find(np.array([4, 100, 50], np.uint64)).tolist() == [0, 10, -1]
    assert table.number[:11].tolist() == [3, *range(90, 100)]


def test_a_scan_makes_old_conversations_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that is alive goes on; numbers go on; a note says what happened."""
    monkeypatch.setattr(tcp, "MAX_CONVERSATIONS", 100)
    talk = Talk().open().say(True, b"one").say(False, b"ONE")
    scan = [Frame(talk.t + i, True, i, 0, SYN, ip_id=i + 1, ports=(1000 + i, 81)) for i in range(1000)]
    talk.t += 10 * MS
    before = len(talk.frames)
    talk.say(True, b"two").say(False, b"TWO").close()
    frames = talk.frames[:before] + scan + talk.frames[before:]
    for rows in (64, 65536):
        (seen,), streams, _ = run(frames, rows)
        assert seen.steps == [(0, b"one"), (1, b"ONE"), (0, b"two"), (1, b"TWO")]
        assert streams.counts == {"tcp": 1001, "empty": 0, "failed": 1000, "http": 1}
        ((kind, count, _),) = streams.notes
        assert kind == "connections-forgotten"
        assert count >= 900


def test_too_many_open_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "MAX_LIVE", 16)
    frames = []
    for i in range(100):
        frames += Talk(t=i * MS, ports=(1000 + i, 80), rtt=MS // 10).open().say(True, b"hello").frames
    found, streams, _ = run(sorted(frames, key=lambda f: f.t), 10)
    assert len(found) == 100
    assert all(seen.data(0) == b"hello" for seen in found)
    assert sum(seen.ends == [(None, "evicted")] for seen in found) == streams.evicted > 0
    assert ("connections-evicted", streams.evicted) == streams.notes[0][:2]
