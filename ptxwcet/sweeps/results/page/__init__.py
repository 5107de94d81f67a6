"""The HTML page about a sweep: its template and styles."""
