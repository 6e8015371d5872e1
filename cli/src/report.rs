//! `metronome report`: the figures of verbose GC logs, as text, JSON, CSV and a page.

mod csv;
mod html;
pub(crate) mod json;
mod text;

use crate::logs::{self, ReadLogs};
use crate::output::{USAGE, one_line, say, stream_out, write_out};
use crate::run::files;
use crate::signals::Signals;
use metronome_analysis::Analyzer;
use metronome_analysis::advice::advise;
use metronome_verbosegc::files::Follow;
use metronome_verbosegc::reader::Item;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// How often a file that is still being written is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Arguments of `metronome report`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Logs may be compressed (gzip), torn, mixed with other output, or of several runs; NAME stands for \
    NAME.001, NAME.002, ... if there is no file NAME; - is standard input.\n\
    Files that are there are replaced at the end, and left as they were if nothing could be read.\n\
    Status: 0 read; 2 bad flags, a log that cannot be read or breaks off, or output lost; 3 a log of another collector. Of \
    several logs, each one that can be read is shown, and 2 comes before 3."
)]
pub(crate) struct ReportArgs {
    /// Verbose GC logs
    #[arg(required = true, value_name = "LOG")]
    pub(crate) logs: Vec<PathBuf>,

    /// Also write the figures as JSON to this file ("-": to standard output; the text then goes to standard error)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Also write one line for each event to this file ("-": to standard output; the text then goes to standard error)
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,

    /// Also write a page to this file that holds everything: verdict, findings, pictures, events ("-": to standard output;
    /// the text then goes to standard error)
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,

    /// Join the older parts that logrotate keeps: LOG.2.gz, LOG.1, LOG
    #[arg(long)]
    pub(crate) rotated: bool,

    /// Wait at the end of the log for more, and show what happens, until interrupted; for one log
    #[arg(short, long, conflicts_with = "rotated")]
    pub(crate) follow: bool,

    /// Show all diagnostics, not the first few
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Runs the command.
pub(crate) fn run(args: &ReportArgs) -> ExitCode {
    match perform(args) {
        Ok(status) => ExitCode::from(status),
        Err(refusal) => {
            say(format_args!("metronome report: {}", one_line(&refusal)));
            ExitCode::from(USAGE)
        }
    }
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

fn perform(args: &ReportArgs) -> Result<u8, String> {
    let outputs =
        [("--json", args.json.as_deref()), ("--csv", args.csv.as_deref()), ("--html", args.html.as_deref())];
    let outputs: Vec<_> = outputs.into_iter().filter_map(|(flag, path)| Some((flag, path?))).collect();
    let to_stdout: Vec<&str> =
        outputs.iter().filter(|(_, path)| is_stdout(path)).map(|(flag, _)| *flag).collect();
    if to_stdout.len() > 1 {
        let flags = to_stdout.join(" and ");
        return Err(format!("{flags} cannot both go to standard output; name a file for all but one"));
    }
    if args.follow && args.logs.len() != 1 {
        return Err("--follow follows one log; name one".into());
    }
    if args.follow && is_stdout(&args.logs[0]) {
        return Err("--follow needs a file: standard input is read to its end anyway".into());
    }
    not_over_logs(&args.logs, &outputs)?;
    let json = prepare("--json", args.json.as_deref())?;
    let html = prepare("--html", args.html.as_deref())?;
    let mut csv = CsvFile::prepare(args.csv.as_deref())?;
    let read = read_all(args, &mut csv)?;
    let advice: Vec<_> = read.logs.iter().map(|log| advise(&log.analysis)).collect();
    // An output that fails costs neither the summary nor the other outputs.
    let mut failed = Vec::new();
    failed.extend(csv.finish(&read).err());
    let page = args.html.as_ref().map(|_| html::page(&read.logs, &advice)).transpose();
    let page = page.unwrap_or_else(|e| {
        failed.push(e);
        None
    });
    let write_json = |out: &mut dyn Write| json::write(out, &read.logs, &advice);
    if let Some((path, results)) = json.filter(|(path, _)| may_write("--json", path, &read)) {
        failed.extend(results.write_with(write_json).err().map(|e| refuse("--json", path, &e)));
    }
    if let (Some((path, results)), Some(page)) =
        (html.filter(|(path, _)| may_write("--html", path, &read)), &page)
    {
        failed.extend(results.write(page).err().map(|e| refuse("--html", path, &e)));
    }
    let text: String =
        read.logs.iter().zip(&advice).map(|(log, advice)| text::log(log, advice, args.verbose)).collect();
    let mut flag = to_stdout.first().map_or(String::new(), |flag| format!("{flag} -: "));
    let written = if args.json.as_deref().is_some_and(is_stdout) {
        say(text.trim_end());
        stream_out(write_json)
    } else if let Some(page) = page.filter(|_| args.html.as_deref().is_some_and(is_stdout)) {
        say(text.trim_end());
        write_out(&page)
    } else if args.csv.as_deref().is_some_and(is_stdout) {
        say(text.trim_end());
        Ok(())
    } else {
        flag.clear();
        write_out(&text)
    };
    failed.extend(written.err().map(|e| format!("{flag}cannot write to standard output: {e}")));
    Ok(if tell("report", &failed) { USAGE } else { read.status() })
}

/// Says what failed; whether anything did.
pub(crate) fn tell(command: &str, failed: &[String]) -> bool {
    for text in failed {
        say(format_args!("metronome {command}: {}", one_line(text)));
    }
    !failed.is_empty()
}

/// Whether a file may be written: not over one that is there if nothing was read, which is said.
pub(crate) fn may_write(flag: &str, path: &Path, read: &ReadLogs) -> bool {
    let keeps = !read.any() && path.metadata().is_ok_and(|m| m.is_file() && m.len() > 0);
    if keeps {
        let name = path.display().to_string();
        say(format_args!("{flag} {}: left as it was, as nothing was read", one_line(&name)));
    }
    !keeps
}

/// One line for each event, as long as they can be written.
struct CsvFile<'a> {
    path: Option<&'a Path>,
    csv: Option<csv::Csv<Box<dyn Finish>>>,
    failed: Option<String>,
}

/// Where lines go: to a file that is replaced at the end, or to standard output.
trait Finish: Write {
    fn finish(self: Box<Self>) -> io::Result<()>;
}

impl Finish for files::Begun {
    fn finish(self: Box<Self>) -> io::Result<()> {
        files::Begun::finish(*self)
    }
}

impl Finish for BufWriter<io::Stdout> {
    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.flush()
    }
}

impl<'a> CsvFile<'a> {
    fn prepare(path: Option<&'a Path>) -> Result<CsvFile<'a>, String> {
        let out: Option<Box<dyn Finish>> = match path {
            Some(path) if is_stdout(path) => Some(Box::new(BufWriter::new(io::stdout()))),
            Some(path) => {
                let begun = files::Results::prepare(path).and_then(files::Results::begin);
                Some(Box::new(begun.map_err(|e| refuse("--csv", path, &e))?))
            }
            None => None,
        };
        Ok(CsvFile { path, csv: out.map(csv::Csv::new), failed: None })
    }

    fn item(&mut self, log: &Path, item: &Item) {
        if let Some(csv) = &mut self.csv
            && let Err(e) = csv.item(log, item)
        {
            self.fail(&e);
        }
    }

    fn fail(&mut self, e: &io::Error) {
        self.csv = None;
        let Some(path) = self.path else { return };
        // Whoever reads standard output has seen enough.
        if !(is_stdout(path) && e.kind() == io::ErrorKind::BrokenPipe) {
            self.failed = Some(refuse("--csv", path, e));
        }
    }

    fn finish(mut self, read: &ReadLogs) -> Result<(), String> {
        let kept = self.path.is_some_and(|path| !is_stdout(path) && !may_write("--csv", path, read));
        if let Some(csv) = self.csv.take().filter(|_| !kept)
            && let Err(e) = csv.finish().and_then(Finish::finish)
        {
            self.fail(&e);
        }
        self.failed.map_or(Ok(()), Err)
    }
}

/// Finds out early whether a file of results can be written; standard output always can.
fn prepare<'a>(flag: &str, path: Option<&'a Path>) -> Result<Option<(&'a Path, files::Results)>, String> {
    let path = path.filter(|path| !is_stdout(path));
    path.map(|path| Ok((path, files::Results::prepare(path).map_err(|e| refuse(flag, path, &e))?)))
        .transpose()
}

fn refuse(flag: &str, path: &Path, e: &io::Error) -> String {
    format!("{flag} {}: {e}; choose a file that can be written", path.display())
}

/// Refuses to write over a log, or two outputs into one file.
pub(crate) fn not_over_logs(logs: &[PathBuf], outputs: &[(&str, &Path)]) -> Result<(), String> {
    let outputs: Vec<_> = outputs.iter().copied().filter(|(_, path)| !is_stdout(path)).collect();
    files::distinct(&outputs)?;
    for log in logs.iter().filter(|log| !is_stdout(log)) {
        for output in &outputs {
            files::distinct(&[("the log", log.as_path()), *output])?;
        }
    }
    Ok(())
}

fn read_all(args: &ReportArgs, csv: &mut CsvFile<'_>) -> Result<ReadLogs, String> {
    let mut read = ReadLogs::default();
    for path in &args.logs {
        let mut shown = Shown::default();
        let mut each = |item: &Item, analyzer: &Analyzer| {
            if args.follow {
                shown.show(analyzer)?;
            }
            csv.item(path, item);
            Ok(())
        };
        let log = if args.follow {
            let signals = Signals::watch();
            let wait = || {
                std::thread::sleep(LOOK);
                // Relaxed: a flag that carries no data.
                !signals.interrupted.load(Relaxed)
            };
            Follow::new(path, wait).map(|input| logs::read(path, BufReader::new(input), &mut each))
        } else {
            logs::open(path, args.rotated).map(|input| logs::read(path, input, &mut each))
        };
        match log {
            Ok(Ok(log)) => read.take("report", path, log),
            Ok(Err(e)) => return Err(format!("cannot write to standard output: {e}")),
            Err(e) => read.cannot("report", path, &e),
        }
    }
    Ok(read)
}

/// Marks shown while a log is followed.
#[derive(Default)]
struct Shown {
    line: u64,
}

impl Shown {
    fn show(&mut self, analyzer: &Analyzer) -> io::Result<()> {
        let marks = analyzer.marks();
        let new = marks.iter().rev().take_while(|m| m.line > self.line).count();
        for mark in &marks[marks.len() - new..] {
            let seconds = mark.at_ns as f64 / 1e9;
            write_out(&format!("{seconds:>12.3} s  {:<16} {}\n", mark.kind, one_line(&mark.text)))?;
            self.line = mark.line;
        }
        Ok(())
    }
}
