"""Embedders: ways to turn sentences into vectors."""
