// The OCI registry with the referrers API that tests run; see ../registry.py for why this one.
module schedkit.io/rig/registrybox

go 1.26

tool github.com/olareg/olareg/cmd/olareg

require (
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/olareg/olareg v0.1.2 // indirect
	github.com/opencontainers/go-digest v1.0.0 // indirect
	github.com/spf13/cobra v1.8.1 // indirect
	github.com/spf13/pflag v1.0.6 // indirect
)
