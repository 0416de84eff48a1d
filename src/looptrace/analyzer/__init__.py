"""The engine: spans to turns, turns to findings. It opens no socket and reads no clock."""
