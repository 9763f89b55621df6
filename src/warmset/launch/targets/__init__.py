"""One file per target: the parts of a launch in, what to type and the files to save out."""
