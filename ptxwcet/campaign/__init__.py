"""Campaigns: what thousands of units of work come to, and how it is shown."""
