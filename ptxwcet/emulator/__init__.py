"""Running PTX: what a kernel computes, what it executes, and where it goes wrong."""
