//! Runners of the benchmark (see docs/BENCHMARKING.md).

fn main() {}
