"""HTTP over TCP and TLS: proxies, deadlines, bounded bodies."""
