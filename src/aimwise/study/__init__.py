"""Studies: tables made of cells that are run once, kept, and gone on with after a stop."""
