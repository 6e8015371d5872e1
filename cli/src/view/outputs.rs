//! What a run writes and serves beside its log: recording, traces, live view.

use super::{listen_addr, token};
use crate::output::say;
use metronome_gc::Heap;
use metronome_live::sink::{Chrome, Lines, TuningFork};
use metronome_live::{Options, Output, RING, Server, Sink, Tap};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Files that records go to.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct Files {
    /// Record all events to this file, one JSON object for each line (metronome live FILE replays it)
    #[arg(long, value_name = "FILE", help_heading = "Live view and traces")]
    pub(crate) record: Option<PathBuf>,

    /// Write a trace for Tuning Fork (format 1.4) to this file
    #[arg(long, value_name = "FILE", help_heading = "Live view and traces")]
    pub(crate) tuning_fork: Option<PathBuf>,

    /// Write a trace for Perfetto and chrome://tracing (JSON) to this file
    #[arg(long, value_name = "FILE", help_heading = "Live view and traces")]
    pub(crate) chrome: Option<PathBuf>,
}

impl Files {
    /// The files, each with its flag.
    pub(crate) fn named(&self) -> Vec<(&'static str, &Path)> {
        [("--record", &self.record), ("--tuning-fork", &self.tuning_fork), ("--chrome", &self.chrome)]
            .into_iter()
            .filter_map(|(flag, path)| Some((flag, path.as_deref()?)))
            .collect()
    }

    /// Makes the files.
    ///
    /// # Errors
    /// One line for people.
    pub(crate) fn create(&self) -> Result<Vec<Output>, String> {
        self.named()
            .into_iter()
            .map(|(flag, path)| {
                let name = format!("{flag} {}", path.display());
                let file = File::create(path)
                    .map_err(|e| format!("{name}: {e}; choose a file that can be written"))?;
                let sink: Box<dyn Sink + Send> = match flag {
                    "--record" => Box::new(Lines::new(file)),
                    "--tuning-fork" => Box::new(TuningFork::new(file)),
                    _ => Box::new(Chrome::new(file)),
                };
                Ok((name, sink))
            })
            .collect()
    }
}

/// Flags of a run.
#[derive(clap::Args, Debug, Default)]
pub(crate) struct ViewArgs {
    /// Serve a live view of the heap at this address, such as 127.0.0.1:0 (a free port) or localhost:7780; others than
    /// loopback addresses need --token-file
    #[arg(long, value_name = "ADDR", value_parser = listen_addr, help_heading = "Live view and traces")]
    pub(crate) serve: Option<SocketAddr>,

    /// Ask clients of --serve for the token in this file's first line (16 to 256 letters, digits, - and _)
    #[arg(long, value_name = "FILE", requires = "serve", help_heading = "Live view and traces")]
    pub(crate) token_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) files: Files,
}

/// What is under way.
#[derive(Debug)]
pub(crate) enum Outputs {
    None,
    Tap(Tap),
    Server(Box<Server>),
}

impl Outputs {
    /// Starts what the flags ask for.
    ///
    /// # Errors
    /// One line for people.
    pub(crate) fn start(args: &ViewArgs, files: Vec<Output>, heap: &Heap) -> Result<Outputs, String> {
        if let Some(addr) = args.serve {
            let mut options = Options::at(addr);
            options.token = token(args.token_file.as_deref())?;
            let server = Server::of_heap(heap, options, files).map_err(|e| format!("--serve {addr}: {e}"))?;
            // Without the token: this may go to a log.
            let more = if args.token_file.is_some() { " (with ?token=…)" } else { "" };
            say(format_args!("metronome run: live view at http://{}/{more}", server.addr()));
            return Ok(Outputs::Server(Box::new(server)));
        }
        if files.is_empty() {
            return Ok(Outputs::None);
        }
        let tap = Tap::start(heap, RING, files).map_err(|e| format!("cannot start a thread: {e}"))?;
        Ok(Outputs::Tap(tap))
    }

    /// Sets a bookmark if anybody may see it.
    pub(crate) fn bookmark(&self, heap: &Heap, text: &str) {
        if !matches!(self, Outputs::None) {
            heap.bookmark(text);
        }
    }

    /// Waits for the end of all, after the heap was closed; what was lost, in words.
    pub(crate) fn finish(self) -> Vec<String> {
        let failed = match self {
            Outputs::None => Vec::new(),
            Outputs::Tap(tap) => tap.finish(),
            Outputs::Server(mut server) => server.finish_outputs(),
        };
        failed.into_iter().map(|(name, e)| format!("{name} is not complete: {e}")).collect()
    }
}
