"""One folder a command: what it asks, what it reports, its text, its options."""
