"""One thin file per command: parse, call, report."""
