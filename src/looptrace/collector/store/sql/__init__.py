"""A store in SQL: its tables and decisions, as a query of DuckDB sees them."""
