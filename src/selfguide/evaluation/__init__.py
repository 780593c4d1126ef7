"""Evaluation: tasks that score an embedder, by protocols that are named in every row."""
