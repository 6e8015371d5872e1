//! Numbers on the command line of a bench.

use std::fmt::Display;
use std::str::FromStr;

/// A number within limits, or what is wrong with it.
pub(crate) fn number<T: FromStr + PartialOrd + Display + Copy>(
    name: &str,
    text: Option<String>,
    min: T,
    max: T,
) -> Result<T, String> {
    let text = text.ok_or_else(|| format!("{name} needs a number from {min} to {max}"))?;
    match text.parse::<T>() {
        Ok(n) if n >= min && n <= max => Ok(n),
        _ => Err(format!("{name} {text}: choose a number from {min} to {max}")),
    }
}
