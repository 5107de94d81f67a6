"""``ptxwcet report``: makes an HTML page about a kernel."""
