"""Explanations for people: self-contained HTML pages, notebooks, terminals."""
