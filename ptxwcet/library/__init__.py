"""The Python interface: ``import ptxwcet`` provides its functions."""
