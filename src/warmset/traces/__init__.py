"""Traffic as arrays: the Trace record, its readers, writers and generators."""
