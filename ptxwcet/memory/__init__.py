"""The addresses of the lanes of a warp in each access, and the number of its transactions."""
