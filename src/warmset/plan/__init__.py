"""Size, decide and predict: one record in, one Plan out."""
