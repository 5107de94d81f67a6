"""What the user says of a kernel: read, placed in the graph, compared with what is found."""
