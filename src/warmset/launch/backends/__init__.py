"""One file per backend: a request in, the parts of a launch out."""
