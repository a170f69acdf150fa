# Lists a Makefile's described targets by group.
BEGIN { FS = ":.*## "; print "Usage: make TARGET" }
/^##@ / { printf "\n%s\n", substr($0, 5) }
/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $1, $2 }
