#!/bin/sh
# Stands before rustc for the crates of this workspace: clippy's compiler is rustc with more lints.
exec clippy-driver "$@" -D warnings
