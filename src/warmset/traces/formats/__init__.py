"""One small reader per trace format; each yields Rows."""
