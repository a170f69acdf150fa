"""What a user is told when something fails."""
