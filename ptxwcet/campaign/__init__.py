"""Campaigns: many units of work, planned, analysed on many cores, and kept."""
