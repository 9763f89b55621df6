"""One reader per kind of input; all of them give `ServerLaunch` records and none of them runs anything."""
