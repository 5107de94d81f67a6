"""Where the lanes of a warp access memory, and how many transactions that takes."""
