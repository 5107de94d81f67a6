"""Instrumented PTX: rewriting a kernel so that it records time-stamped points, reading the dump."""
