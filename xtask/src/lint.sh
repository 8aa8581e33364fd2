#!/bin/bash
# Stands before rustc for the crates of this workspace: clippy's compiler is rustc with more lints. It needs bash: other shells
# drop the variables with hyphens in their names, such as CARGO_BIN_EXE_larder-lab. What only fuzz targets call is compiled, too:
# they are built from the same libraries as the tests.
exec clippy-driver "$@" -D warnings --cfg fuzzing
