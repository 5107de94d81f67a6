"""From one block to a kernel: how many blocks run at once, and in how many waves."""
