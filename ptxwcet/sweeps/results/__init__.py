"""What a sweep found, read from its results and shown: rankings, maps, pictures, a page."""
