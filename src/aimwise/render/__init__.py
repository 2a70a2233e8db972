"""Explanations for people: self-contained HTML pages, figures, notebooks, terminals."""
