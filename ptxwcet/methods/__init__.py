"""Published methods beside the static bound, each with its study, report, text and command."""
