//! `metronome top`: a heap that is served, in the terminal.

use super::{screen, server, token};
use crate::output::{USAGE, one_line, say, write_out};
use crate::quantity::parse_seconds;
use metronome_live::sink::Lines;
use metronome_live::{Client, Event, Figures, Record, Sink};
use std::fs::File;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Arguments of `metronome top`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Where standard output is no terminal, it gets one line for each second.\n\
    Status: 0 the heap was closed, or --seconds are over; 2 no connection, or a lost one.")]
pub(crate) struct TopArgs {
    /// HOST:PORT or the page's address of a heap that is served (metronome run --serve, or heap.serve in a program)
    #[arg(value_name = "ADDR")]
    addr: String,

    /// The token is in this file's first line
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Also record what comes to this file (metronome live FILE replays it)
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Stop after this time: seconds, or with a unit [default: when the heap is closed]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    seconds: Option<Duration>,
}

/// Between two pictures, and between two lines.
const PICTURE: Duration = Duration::from_millis(500);
const LINE: Duration = Duration::from_secs(1);

impl TopArgs {
    /// With defaults.
    pub(super) fn of(addr: String, token_file: Option<PathBuf>) -> TopArgs {
        TopArgs { addr, token_file, record: None, seconds: None }
    }
}

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> ExitCode {
    match perform(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            say(format_args!("metronome top: {}", one_line(&text)));
            ExitCode::from(USAGE)
        }
    }
}

fn perform(args: &TopArgs) -> Result<(), String> {
    let (addr, in_addr) = server(&args.addr);
    let token = token(args.token_file.as_deref())?.or_else(|| in_addr.map(str::to_owned));
    let mut recording = match &args.record {
        None => None,
        Some(path) => {
            let name = format!("--record {}", path.display());
            let file = File::create(path).map_err(|e| format!("{name}: {e}; choose another file"))?;
            Some((name, Lines::new(file)))
        }
    };
    let mut client = Client::connect(addr, token.as_deref()).map_err(|e| e.to_string())?;
    let pictures = std::io::stdout().is_terminal();
    let every = if pictures { PICTURE } else { LINE };
    let deadline = args.seconds.map(|s| Instant::now() + s);
    let mut figures = Figures::new();
    // A picture at once; a line when there has been something to say.
    let mut shown: Option<Instant> = (!pictures).then(Instant::now);
    loop {
        let records = client.next_records().map_err(|e| e.to_string())?;
        for r in records.iter().flatten() {
            figures.take(r);
            if let Some((name, lines)) = &mut recording {
                lines.take(r).map_err(|e| format!("{name}: {e}"))?;
            }
        }
        if let Some((name, lines)) = &mut recording {
            lines.flush().map_err(|e| format!("{name}: {e}"))?;
        }
        let over = figures.ended || records.is_none() || deadline.is_some_and(|d| Instant::now() >= d);
        if over || shown.is_none_or(|at| at.elapsed() >= every) {
            shown = Some(Instant::now());
            let text = if pictures { screen::picture(&figures) } else { screen::line(&figures) };
            write_out(&text).map_err(|e| format!("cannot write to standard output: {e}"))?;
        }
        if over {
            if let Some((name, lines)) = recording.as_mut().filter(|_| !figures.ended) {
                // The heap goes on, or is not known to have been closed.
                let end = Record { ns: figures.now_ns, event: Event::BreakOff };
                let ended = lines.take(&end).and_then(|()| lines.end());
                ended.map_err(|e| format!("{name}: {e}"))?;
            }
            return match records {
                None if !figures.ended => Err("the server has gone".into()),
                _ => Ok(()),
            };
        }
    }
}
