"""The results of a sweep, read from its tables and shown: rankings, maps, pictures, a page."""
