//! The built command and a directory for what it writes.
#![allow(dead_code, reason = "no test uses all of it")]

pub(crate) mod browser;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// The command, without the settings of whoever runs the tests.
pub(crate) fn metronome(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_metronome"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("METRONOME_") {
            command.env_remove(name);
        }
    }
    command.args(args).stdin(Stdio::null());
    command
}

pub(crate) fn output(args: &[&str]) -> Output {
    metronome(args).output().unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A directory of a test's own, removed at its end.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    /// `name` is one for all the command's tests: the process is another for each file of them.
    pub(crate) fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("metronome-cli-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), bytes).unwrap();
        self.path(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
