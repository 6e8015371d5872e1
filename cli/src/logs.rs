//! Reading the logs that `report` and `advise` are given.

use crate::output::{one_line, say};
use metronome_analysis::{Analysis, Analyzer};
use metronome_verbosegc::files;
use metronome_verbosegc::reader::{DiagnosticKind, Item, Reader};
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

/// Status for a log of another collector.
pub(crate) const OTHER_COLLECTOR: u8 = 3;

/// A log that was read.
pub(crate) struct ReadLog {
    /// Its name as given.
    pub(crate) file: String,
    pub(crate) analysis: Analysis,
    /// Why reading ended early; what came before it is in the analysis.
    pub(crate) broke_off: Option<String>,
}

/// What reading all logs came to.
#[derive(Default)]
pub(crate) struct ReadLogs {
    pub(crate) logs: Vec<ReadLog>,
    /// A log could not be read, or holds nothing.
    pub(crate) unreadable: bool,
    /// A log is another collector's.
    pub(crate) other: bool,
}

impl ReadLogs {
    /// The status that the logs ask for: 2 if one could not be read, 3 if one is another collector's, else 0.
    pub(crate) fn status(&self) -> u8 {
        match (self.unreadable, self.other) {
            (true, _) => crate::output::USAGE,
            (false, true) => OTHER_COLLECTOR,
            (false, false) => 0,
        }
    }

    /// Whether there is anything to write into files: if not, those that are there stay as they are.
    pub(crate) fn any(&self) -> bool {
        self.status() == 0 || self.logs.iter().any(|log| log.analysis.events > 0)
    }

    /// Reads one log from an input, and says what is wrong with it as a whole.
    pub(crate) fn take(&mut self, command: &str, file: &Path, log: ReadLog) {
        let name = one_line(&file.display().to_string());
        let complain = |text: String| say(format_args!("metronome {command}: {name}: {text}"));
        let a = &log.analysis;
        if let Some(why) = &log.broke_off {
            self.unreadable = true;
            complain(format!("reading ended early: {}; what came before is used", one_line(why)));
        }
        for policy in &a.refused.rows {
            complain(one_line(&policy.to_string()));
        }
        self.other |= a.is_all_refused();
        if a.events == 0 && a.refused.total() == 0 {
            let why = a.diagnostics.rows.iter().find(|d| d.kind == DiagnosticKind::Unreadable);
            if let Some(d) = why {
                self.unreadable = true;
                complain(format!("not a log: {}", d.text));
            } else if is_trace(a) {
                complain("a trace of -Xtgc:rootscantime, which has no events of a verbose GC log".into());
            } else {
                self.unreadable = true;
                complain(
                    "no event of a Metronome collector in it; name a log written by -Xverbosegclog, -verbose:gc or \
                     --verbose-gc"
                        .into(),
                );
            }
        }
        self.logs.push(log);
    }

    /// A log that could not be opened.
    pub(crate) fn cannot(&mut self, command: &str, file: &Path, e: &io::Error) {
        self.unreadable = true;
        say(format_args!("metronome {command}: {}: {e}", one_line(&file.display().to_string())));
    }
}

/// A root scan trace holds `<scan>` and `<thread>` elements and no event.
fn is_trace(a: &Analysis) -> bool {
    a.diagnostics.rows.iter().any(|d| d.text.contains("<scan>"))
}

/// Opens a log; `rotated` joins the older parts that logrotate keeps.
pub(crate) fn open(file: &Path, rotated: bool) -> io::Result<Box<dyn BufRead + Send>> {
    let parts: Vec<PathBuf> = if rotated { files::logrotated(file)? } else { files::parts(file)? };
    files::open_parts(parts)
}

/// Reads a log to its end; `each` sees every item and what was found so far.
///
/// # Errors
/// Those of `each`, that is of an output. Those of the input end the log early.
pub(crate) fn read(
    file: &Path,
    input: impl BufRead,
    mut each: impl FnMut(&Item, &Analyzer) -> io::Result<()>,
) -> io::Result<ReadLog> {
    let mut reader = Reader::new(input);
    let mut analyzer = Analyzer::new();
    let mut broke_off = None;
    loop {
        match reader.read() {
            Ok(Some(item)) => {
                analyzer.push(&item);
                each(&item, &analyzer)?;
            }
            Ok(None) => break,
            Err(e) => broke_off = Some(e.to_string()),
        }
    }
    Ok(ReadLog { file: file.display().to_string(), analysis: analyzer.finish(), broke_off })
}
