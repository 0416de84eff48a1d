"""The store: Parquet files for spans, turns and findings, and SQLite for gates.

Whatever reads or writes a store raises `StoreError` where the folder is no store, or a file cannot
be read, is not what looptrace wrote, or cannot be written. Docstrings name the other errors.
"""
