"""Judges: language models that give an opinion of loops."""
