"""The front door for Python: ``import ptxwcet`` gives its functions."""
