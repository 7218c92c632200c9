"""Captures made fit to hand to strangers: everything that is not protocol is replaced, length for length.

One subject a file: `pseudonyms` (what a word becomes), `addresses`, `vocabulary` (what stays), `text`, `json_text`,
`fields` (HTTP headers), `header_block` (HPACK), `protobuf`, `packing` (codings), `content` (bodies), `streams`
(HTTP/2), `messages` (WebSocket), `tls`, `layers` (one TCP connection), `dns`, `packets` (headers and checksums),
`rewrite` (a capture from end to end).
"""
