"""Benchmarks: seeded synthetic turns, and looptrace measured beside a plain Python loop."""
