"""How the API server is found, and who we are there."""
