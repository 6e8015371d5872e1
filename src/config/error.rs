//! What can be wrong with a configuration.

use std::error::Error;
use std::fmt;

/// A configuration that cannot be used, and what to do about it. Displays as one line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// There is no option of this name.
    UnknownOption {
        /// The name given.
        name: String,
        /// The option whose name is nearest to it.
        nearest: &'static str,
    },
    /// There is no option behind this environment variable, which has Metronome's prefix.
    UnknownVariable {
        /// The variable.
        variable: String,
        /// The known variable whose name is nearest to it.
        nearest: &'static str,
    },
    /// This is a flag of `metronome run`, and no option of a heap.
    FlagOfRun {
        /// The name given: of an option or an environment variable.
        name: String,
        /// The flag, without its dashes.
        flag: &'static str,
    },
    /// The value cannot be read as what the option takes.
    BadValue {
        /// The option.
        option: &'static str,
        /// The value given.
        value: String,
        /// What the option takes, with an example.
        expected: String,
    },
    /// The value can be read but does not fit 64 bits.
    Overflow {
        /// The option.
        option: &'static str,
        /// The value given.
        value: String,
        /// The values the option takes.
        range: &'static str,
    },
    /// The value can be read but is not one that the option takes.
    OutOfRange {
        /// The option.
        option: &'static str,
        /// The value given.
        value: String,
        /// The values the option takes.
        range: &'static str,
    },
    /// Each option is fine by itself, but they cannot be kept together.
    Infeasible {
        /// The options involved, the one to change first.
        options: &'static [&'static str],
        /// The inequality that fails, in the options' names.
        inequality: &'static str,
        /// The same with the numbers put in.
        numbers: String,
        /// The nearest value that works.
        remedy: String,
    },
    /// The text is not TOML, or holds a value that no option takes (a table, an array, a date).
    Toml {
        /// Line of the text, from 1, if known.
        line: Option<usize>,
        /// What the parser says.
        message: String,
    },
    /// A configuration file could not be read.
    File {
        /// The file.
        path: std::path::PathBuf,
        /// The operating system's reason.
        reason: String,
    },
    /// An environment variable's value is not Unicode.
    NotUnicode {
        /// The variable.
        variable: String,
    },
    /// An error in a place that has a name: a file, an environment variable.
    At {
        /// The place.
        place: String,
        /// The error.
        source: Box<ConfigError>,
    },
}

impl ConfigError {
    /// The error itself, without the places it was found in.
    pub fn innermost(&self) -> &ConfigError {
        match self {
            ConfigError::At { source, .. } => source.innermost(),
            other => other,
        }
    }

    pub(super) fn at(self, place: impl Into<String>) -> ConfigError {
        ConfigError::At { place: place.into(), source: Box::new(self) }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `{:?}` on what the user gave: quotes it and keeps the message on one line.
        match self {
            ConfigError::UnknownOption { name, nearest } => {
                write!(f, "unknown option {name:?}: did you mean {nearest:?}?")
            }
            ConfigError::UnknownVariable { variable, nearest } => {
                write!(
                    f,
                    "unknown environment variable {variable:?}: did you mean {nearest}? (unset it otherwise)"
                )
            }
            ConfigError::FlagOfRun { name, flag } => {
                write!(
                    f,
                    "{name:?} is no option of the heap: it is a flag of `metronome run` only, to be given as --{flag} \
                     on its command line"
                )
            }
            ConfigError::BadValue { option, value, expected } => {
                write!(f, "{option} = {value:?}: expected {expected}")
            }
            ConfigError::Overflow { option, value, range } => {
                write!(f, "{option} = {value:?}: too large to be represented; the range is {range}")
            }
            ConfigError::OutOfRange { option, value, range } => {
                write!(f, "{option} = {value:?}: out of range; the range is {range}")
            }
            ConfigError::Infeasible { inequality, numbers, remedy, .. } => {
                write!(f, "infeasible: {inequality} does not hold ({numbers}); {remedy}")
            }
            ConfigError::Toml { line: Some(line), message } => write!(f, "line {line}: {message}"),
            ConfigError::Toml { line: None, message } => f.write_str(message),
            ConfigError::File { path, reason } => {
                write!(f, "configuration file {:?} cannot be read: {reason}", path.display().to_string())
            }
            ConfigError::NotUnicode { variable } => write!(f, "{variable}: its value is not Unicode text"),
            ConfigError::At { place, source } => write!(f, "{place}: {source}"),
        }
    }
}

impl Error for ConfigError {
    // No `source`: the message of `At` already contains that of its cause, and a reporter that walks sources would
    // print it twice.
}
