"""Encoders: text to token states of every layer, to pooled views; loading and saving. Knows nothing of objectives."""
