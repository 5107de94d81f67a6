"""How the lanes of a warp differ in a value, and who takes a branch alike."""
