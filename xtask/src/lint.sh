#!/bin/bash
# Stands before rustc for the crates of this workspace: clippy's compiler is rustc with more lints. It needs bash: other shells
# drop the variables with hyphens in their names, such as CARGO_BIN_EXE_larder-lab.
exec clippy-driver "$@" -D warnings
