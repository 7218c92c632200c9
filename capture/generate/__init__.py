"""Recordings of the real SDK clients against counterparts built with the SDKs' own servers.

A cell (`cells`) is one situation of the benchmark. `play` plays it: a counterpart process, a packet recorder and a
client process, on loopback. The client process writes down what its own HTTP layer did (`ledger`), and `truth` makes
of that the file that stands beside the capture. Nothing here reads the capture: truth and capture are independent.

The two processes are started by the path of this folder (`__main__`), so each may run in an environment of its own with
other SDK versions. For that the modules they use (all but `play`, `sniffer`, `proxy` and `truth`) need nothing but the
standard library and the SDKs (and `hsa.capture.links.relay`, which needs nothing).
"""
