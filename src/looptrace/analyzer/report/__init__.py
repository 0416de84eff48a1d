"""What people read: terminal, HTML, JSON, Markdown, log lines."""
