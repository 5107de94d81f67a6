"""``ptxwcet phases``: the execution and idle phases of a warp."""
