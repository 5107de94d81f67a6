"""Executes PTX functionally: results, executed paths and errors of a kernel."""
