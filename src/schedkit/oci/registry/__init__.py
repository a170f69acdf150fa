"""One registry: its API, logging in, its mirrors.

Begin with `client`. `host` is what it speaks to: scheme, retries, what a status means. `redirects` are
followed without the login. `challenges` answers what the registry demands, with `logins` that other tools
left, or that `login_helpers` keep. `mirrors`: where else to read. `uploads`: pushing. `download`: one file by
its URL, as carefully.
"""
