"""Numbers to what-if: the timing model, re-sending, the recorded counterpart."""

if __name__ != "hsa.replay":
    raise ImportError("import this room as hsa.replay, so that there is one copy of each class")
