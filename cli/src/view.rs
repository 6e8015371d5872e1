//! Looking at a heap, and at what others have written about one: `live`, `top`, `export`, and the outputs of a run.

mod export;
mod live;
mod outputs;
mod screen;
mod top;

use metronome_live::input::InputError;
use std::fs::File;
use std::io::Read;
use std::net::{SocketAddr, ToSocketAddrs};
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

/// Bytes of a token's file that are read at most: it may be a device without an end.
const TOKEN_FILE_MAX: u64 = 4096;

/// The token in a file's first line. (On the command line everybody could read it.)
///
/// # Errors
/// One line for people.
fn token(file: Option<&Path>) -> Result<Option<String>, String> {
    let Some(path) = file else { return Ok(None) };
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(TOKEN_FILE_MAX).read_to_end(&mut text));
    read.map_err(|e| {
        format!("--token-file {}: {e}; give a file whose first line is the token", path.display())
    })?;
    let line = text.split(|b| *b == b'\n').next().unwrap_or_default();
    Ok(Some(String::from_utf8_lossy(line).trim().to_owned()))
}

/// Where to listen: `HOST:PORT`, with an address or a name of this host.
///
/// # Errors
/// What is wrong with it.
fn listen_addr(text: &str) -> Result<SocketAddr, String> {
    if let Ok(addr) = text.parse() {
        return Ok(addr);
    }
    let hint = "give HOST:PORT, such as 127.0.0.1:0 or localhost:7780";
    if !text.contains(':') {
        return Err(format!("no port; {hint}"));
    }
    let mut addrs = text.to_socket_addrs().map_err(|e| format!("{e}; {hint}"))?;
    addrs.next().ok_or_else(|| format!("the name has no address; {hint}"))
}

/// `HOST:PORT` of a server, and the token if there is one in the text, from either that or the page's whole address.
fn server(text: &str) -> (&str, Option<&str>) {
    let rest = text.strip_prefix("http://").unwrap_or(text);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let query = path.split_once('?').map_or("", |(_, query)| query);
    let token = query.split('&').find_map(|p| p.strip_prefix("token="));
    (host, token.filter(|t| !t.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_their_addresses_and_by_their_pages() {
        for (text, want) in [
            ("127.0.0.1:80", ("127.0.0.1:80", None)),
            ("http://127.0.0.1:7798/", ("127.0.0.1:7798", None)),
            ("http://[::1]:7798", ("[::1]:7798", None)),
            ("http://h:1/?token=", ("h:1", None)),
            ("http://h:1/?x=1&token=abc", ("h:1", Some("abc"))),
        ] {
            assert_eq!(server(text), want, "{text}");
        }
    }

    #[test]
    fn one_listens_at_addresses_and_names() {
        assert_eq!(listen_addr("[::1]:5"), Ok("[::1]:5".parse().unwrap()));
        let local = listen_addr("localhost:7793").unwrap();
        assert!(local.ip().is_loopback() && local.port() == 7793, "{local}");
        for bad in ["somewhere", "localhost", "localhost:x", ":80"] {
            assert!(listen_addr(bad).unwrap_err().contains("HOST:PORT"), "{bad}");
        }
    }

    #[test]
    fn a_token_is_the_first_line_of_whatever_file() {
        let path = std::env::temp_dir().join(format!("metronome-token-{}", std::process::id()));
        std::fs::write(&path, " 0123456789abcdef \nmore").unwrap();
        assert_eq!(token(Some(&path)).unwrap().as_deref(), Some("0123456789abcdef"));
        std::fs::remove_file(&path).unwrap();
        // Without an end; what it holds is refused as a token.
        assert_eq!(token(Some(Path::new("/dev/zero"))).unwrap().map(|t| t.len()), Some(4096));
        assert!(token(Some(&path)).is_err());
    }
}
