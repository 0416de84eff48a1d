"""Reports: terminal, HTML, JSON, Markdown, log lines."""
