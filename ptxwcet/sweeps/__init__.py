"""Campaigns: many independent units of work on all cores of a computer, or of a cluster (Dask)."""
