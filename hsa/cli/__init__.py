"""The command line: one file a command. Nothing else in hsa prints."""
