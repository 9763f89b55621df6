"""The only room that renders: records in, text and data out."""
