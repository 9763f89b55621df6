"""Hit rate against capacity, from a trace."""
