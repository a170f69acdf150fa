"""How a test session runs: tiers, what runs beside what, tests inside guests, and the report at the end."""
