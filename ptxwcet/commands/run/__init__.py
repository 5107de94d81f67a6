"""``ptxwcet run``: a launch executed by the emulator."""
