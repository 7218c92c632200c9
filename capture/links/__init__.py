"""Links between a client and a counterpart on one machine, as slow and as lossy as is asked for.

`link` says what a link is like. `path` makes a real one: two network namespaces joined by TUN devices, with a queue in
user space (`queue`, `pump`) that holds back every packet, so that TCP and TLS set-up, slow start and retransmission are
the kernel's own. `relay` is the emulation of a published benchmark: connections open at local speed, and each chunk of
bytes is held back. `relay` needs nothing but the standard library: the client processes of `generate` use it too.
"""
