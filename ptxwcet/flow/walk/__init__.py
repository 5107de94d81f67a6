"""The walk: a group of warps goes through the kernel, and what it executes becomes a path."""
