"""Hooks of coding agents: the process that asks a server, and the settings that call it."""
