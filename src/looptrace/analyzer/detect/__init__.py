"""Turns to findings: columns, counters, rules, and the stretches that rules see."""
