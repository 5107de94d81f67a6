"""``ptxwcet run``: executes a launch with the emulator."""
