"""Explainers behind HTTP: a service for programs and a page for people. Needs the extra `web`."""
