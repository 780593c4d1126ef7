"""Paraphrases by translation into another language and back."""
