//! Looking at a heap, and at what others have written about one: `live`, `top`, `export`, and the outputs of a run.

mod export;
mod live;
mod outputs;
mod screen;
mod top;

use metronome_live::input::InputError;
use std::path::Path;

pub(crate) use export::ExportArgs;
pub(crate) use live::LiveArgs;
pub(crate) use outputs::{Files, Outputs, ViewArgs};
pub(crate) use top::TopArgs;

pub(crate) use export::run as export;
pub(crate) use live::run as live;
pub(crate) use top::run as top;

/// Status for the log of another collector.
pub(crate) const OTHER_POLICY: u8 = 3;

/// The status that an unreadable input ends with.
fn status(e: &InputError) -> u8 {
    if matches!(e, InputError::OtherPolicy(_)) { OTHER_POLICY } else { crate::output::USAGE }
}

/// The token in a file's first line. (On the command line everybody could read it.)
///
/// # Errors
/// One line for people.
fn token(file: Option<&Path>) -> Result<Option<String>, String> {
    let Some(path) = file else { return Ok(None) };
    let text = std::fs::read_to_string(path).map_err(|e| {
        format!("--token-file {}: {e}; give a file whose first line is the token", path.display())
    })?;
    Ok(Some(text.lines().next().unwrap_or("").trim().to_owned()))
}
