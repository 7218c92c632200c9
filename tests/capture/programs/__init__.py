"""Programs that tests record: real servers and clients."""
