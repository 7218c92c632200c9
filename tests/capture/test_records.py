"""Columns of records: what is computed over them (`hsa.capture.records`)."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hsa.capture.records import distinct


@given(st.lists(st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)))
def test_distinct_agrees_with_numpy(values: list[int]) -> None:
    column = np.array(values, np.int64)
    assert distinct(column).tolist() == np.unique(column).tolist()
