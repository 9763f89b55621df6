"""From a server's metrics to three meters and a verdict."""
