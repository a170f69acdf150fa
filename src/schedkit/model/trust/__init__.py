"""Who may sign what: policies, rules of an administrator, and the words of a refusal."""
