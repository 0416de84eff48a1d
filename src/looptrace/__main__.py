"""`python -m looptrace` is the command line."""

from looptrace.cli.main import main

if __name__ == "__main__":
    main()
