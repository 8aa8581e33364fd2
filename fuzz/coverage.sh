#!/bin/sh
# Stands before rustc for the crates of this workspace: coverage for the fuzzer, which the stable compiler can do as well.
# Build scripts run without the fuzzer, so they cannot report to it.
case " $* " in *" --crate-name build_script_build "*) exec "$@" ;; esac
exec "$@" --cfg fuzzing -C passes=sancov-module -C codegen-units=1 \
    -C llvm-args=-sanitizer-coverage-level=4 \
    -C llvm-args=-sanitizer-coverage-inline-8bit-counters \
    -C llvm-args=-sanitizer-coverage-pc-table \
    -C llvm-args=-sanitizer-coverage-trace-compares
