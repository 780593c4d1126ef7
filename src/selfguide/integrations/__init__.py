"""Doors into other people's tools."""
