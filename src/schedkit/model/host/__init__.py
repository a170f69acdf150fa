"""One machine: who owns the attached scheduler, what its status is, and what to do to change it."""
