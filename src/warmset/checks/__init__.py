"""Rules over commands and manifests that catch the traps before anything runs."""
