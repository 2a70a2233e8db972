"""Rows from files and standard input in portions, and explanations into files, as large as they may be."""
