"""What a verb prints: results, progress, the terminal."""
