"""What the outbox holds, brought to its receivers over HTTP."""
