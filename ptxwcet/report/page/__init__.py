"""The page about a kernel's bound: its data, its pictures, its template."""
