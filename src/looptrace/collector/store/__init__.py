"""The store: Parquet files for spans, turns and findings, and SQLite for gates."""
