//! `metronome live`: replays a file on a page.

use super::{listen_addr, server, status, token, top};
use crate::output::{USAGE, one_line, print, say};
use crate::signals::Signals;
use metronome_live::{Options, ServeError, serve_file};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Arguments of `metronome live`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Status: 0 ended by Ctrl-C or SIGTERM; 2 bad flags or input; 3 a log of another collector."
)]
pub(crate) struct LiveArgs {
    /// A recording (metronome run --record), a Tuning Fork trace or a verbose GC log; or HOST:PORT or the page's
    /// address of a heap that is served,
    /// which is shown in the terminal as by metronome top
    #[arg(value_name = "FILE|ADDR")]
    what: String,

    /// Serve the page at this address; others than loopback addresses need --token-file
    #[arg(long, value_name = "ADDR", value_parser = listen_addr, default_value = "127.0.0.1:0")]
    listen: SocketAddr,

    /// Ask clients for the token in this file's first line, or give it to the server at ADDR
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// Whether a text that is no file names a server.
fn is_addr(what: &str) -> bool {
    let port =
        server(what).0.rsplit_once(':').map(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok());
    !Path::new(what).exists() && port == Some(true)
}

/// Runs the command.
pub(crate) fn run(args: &LiveArgs) -> ExitCode {
    if is_addr(&args.what) {
        return top::run(&top::TopArgs::of(args.what.clone(), args.token_file.clone()));
    }
    match perform(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err((status, text)) => {
            say(format_args!("metronome live: {}", one_line(&text)));
            ExitCode::from(status)
        }
    }
}

fn perform(args: &LiveArgs) -> Result<(), (u8, String)> {
    let signals = Signals::watch();
    let mut options = Options::at(args.listen);
    options.token = token(args.token_file.as_deref()).map_err(|e| (USAGE, e))?;
    let server = serve_file(Path::new(&args.what), options).map_err(|e| match &e {
        ServeError::Input(input) => (status(input), format!("{}: {e}", args.what)),
        _ => (USAGE, format!("--listen {}: {e}", args.listen)),
    })?;
    // Told on standard output, where a script can read the port; without the token, which the user has.
    let more = if args.token_file.is_some() { "?token=" } else { "" };
    print(&format!("http://{}/{more}\n", server.addr()));
    // Relaxed: a flag that carries no data.
    while !signals.interrupted.load(Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_addr;

    #[test]
    fn servers_are_told_from_files() {
        for addr in
            ["127.0.0.1:80", "[::1]:8080", "localhost:9", "http://127.0.0.1:80/", "http://h:1/?token="]
        {
            assert!(is_addr(addr), "{addr}");
        }
        for file in ["gc.xml", "gc.xml:", ":80", "a:b", "c:99999", "Cargo.toml"] {
            assert!(!is_addr(file), "{file}");
        }
    }
}
