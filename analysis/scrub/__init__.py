"""Captures made fit to hand to strangers: everything that is not protocol is replaced, length for length.

One subject a file: `pseudonyms` (what a word becomes), `addresses`, `vocabulary` (what stays), `text`, `json_text`,
`fields` (HTTP headers), `header_block` (HPACK), `content` (bodies and their codings), `conversation` (the layers of one
TCP connection), `packets` (headers and checksums), `rewrite` (a capture from end to end), `plain` (TLS taken off).
"""
