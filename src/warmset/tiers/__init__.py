"""Storage below RAM."""
