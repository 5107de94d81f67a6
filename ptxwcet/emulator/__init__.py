"""The functional execution of PTX: the results of a kernel, its executed paths, and its errors."""
