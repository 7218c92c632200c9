"""Meaning to numbers: exchanges, sessions, handshakes, metrics, tokens, statistics."""

if __name__ != "hsa.analysis":
    raise ImportError("import this room as hsa.analysis, so that there is one copy of each class")
