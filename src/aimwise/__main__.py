"""`python -m aimwise` is the command line."""

from aimwise.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
