"""``python -m ptxwcet``: the command line."""

from ptxwcet.cli.main import main

if __name__ == "__main__":
    main()
