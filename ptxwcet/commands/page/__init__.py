"""``ptxwcet report``: an HTML page about a kernel."""
