"""What each server version accepts and exports: facts as data."""
