"""The measurement study on agent handshakes redone from the wire: tables and figures beside the published values."""
