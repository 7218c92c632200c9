"""Packets in and out: capture files, live recording, generators that drive the real SDKs."""

if __name__ != "hsa.capture":
    raise ImportError("import this room as hsa.capture, so that there is one copy of each class")
