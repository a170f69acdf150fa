"""Files that are whole or absent, in folders that nobody else can write to."""
