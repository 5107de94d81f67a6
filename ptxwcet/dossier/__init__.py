"""``ptxwcet report dossier``: all that an argument about one kernel rests on."""
