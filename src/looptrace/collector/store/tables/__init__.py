"""The Parquet files of a store's tables: their names, what they hold, and how rows are replaced."""
