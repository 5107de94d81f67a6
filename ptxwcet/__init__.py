"""ptxwcet: static worst-case execution time bounds for GPU thread blocks, from PTX."""

__version__ = "0.1.0"
