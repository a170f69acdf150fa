module schedkit.io/rig/probe

go 1.26.0
