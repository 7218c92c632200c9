"""Bytes to meaning, one protocol a file, bottom to top."""

if __name__ != "hsa.dissectors":
    raise ImportError("import this room as hsa.dissectors, so that there is one copy of each class")
