"""Make an agent that fails in the same way until it has read something."""

import threading
import time

from opentelemetry import trace

from looptrace.collector import agent as work
from looptrace.collector import turn

trace.set_tracer_provider(provider)


class Agent:
    """Steps that fail in the same way until the agent has read something."""

    has_read = False

    def __iter__(self):
        while not self.has_read:
            yield self.step

    def step(self):
        try:
            with work("fixer", session="ticket-42"), turn("apply_migration", {"number": 42}):
                raise RuntimeError("the column is there already")
        except RuntimeError:
            processor.force_flush()

    def read(self, text):
        print(text)
        self.has_read = True


agent = [lambda: None] * 3
