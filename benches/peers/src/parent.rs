//! The harness: starts a child for each run, in turn, and makes records, tables and pictures of what they report.

pub(crate) mod machine;
pub(crate) mod minimum;
pub(crate) mod percentiles;
pub(crate) mod plot;
pub(crate) mod process;
pub(crate) mod record;
pub(crate) mod rounds;
pub(crate) mod runner;
pub(crate) mod table;
pub(crate) mod toolchain;
