//! The integration tests: one binary, so that the workspace is linked once. `tests/README.md` says what is where.

mod chain;
mod chopped;
mod cli;
mod cli_blame;
mod cli_ends;
mod cli_folders;
mod cli_outputs;
mod damage;
mod gpu_f16;
mod gpu_faults;
mod gpu_kernels;
mod gpu_port;
mod gpu_session;
mod header_only;
mod layering;
mod lying;
mod messages;
mod must_reject;
mod parity;
mod receiver;
mod regressions;
mod roundtrip;
mod support;
mod tidy;
mod vectors;
mod wrong_base;
